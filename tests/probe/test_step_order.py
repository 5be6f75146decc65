"""Steps that put the samples of a batch in another order: with their targets, or without."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, cross_entropy, mlp, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial


def reordered(model: nn.Module, batch: Any, both: bool) -> Tensor:
    """Samples put in the order of their lengths, as packing asks for, with their labels or without."""
    order = batch[2].argsort(descending=True)
    return F.cross_entropy(model(batch[0][order]), batch[1][order] if both else batch[1])


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("norm", [nn.Identity, lambda: nn.BatchNorm1d(32)])
def test_a_batch_that_the_step_puts_in_another_order(both: bool, norm: Any) -> None:
    lengths = torch.randperm(32, generator=torch.Generator().manual_seed(0))
    batches = [(x, y, lengths) for x, y in classes(8)]
    model = nn.Sequential(nn.Linear(8, 32), norm(), nn.ReLU(), nn.Linear(32, 5))
    verdict = ask("batch-mixing", trial_of(model, batches, lambda model, batch: reordered(model, batch, both)))
    assert verdict.outcome is (Outcome.PASS if both else Outcome.FAIL), verdict
    assert (
        both or "the loss compares predictions with other samples' targets: with another `batch[1]`" in verdict.summary
    )


def in_turn(trial: Trial, disturb: Any) -> Trial:
    """The same, of which every other step sees its batch disturbed."""
    plain = trial.train_step
    trial.train_step = lambda batch, index: plain(disturb(batch) if index % 2 else batch, index)
    return trial


def permuted(batch: Any) -> Any:
    order = torch.randperm(len(batch[0]))
    return batch[0][order], batch[1]


def test_samples_that_lose_their_labels_in_every_other_step() -> None:
    found = ask("batch-mixing", in_turn(trial_of(mlp(), classes(8), cross_entropy), permuted))
    says(found, Outcome.FAIL, "other samples' targets, not in every step", "stays, bit for bit")
    sound: list[Any] = [
        lambda batch: (batch[0] + torch.randn_like(batch[0]), batch[1]),
        lambda batch: (batch[0].flip(0), batch[1].flip(0)),
        lambda batch: (0.5 * (batch[0] + batch[0].flip(0)), batch[1]),
    ]
    for disturb in sound:
        says(ask("batch-mixing", in_turn(trial_of(mlp(), classes(8), cross_entropy), disturb)), Outcome.PASS)


def test_samples_compared_in_random_pairs_within_the_step() -> None:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        order = torch.randperm(len(batch[0]))
        pairs = torch.cat([batch[0], batch[0][order]], 1)
        same = (batch[1] == batch[1][order]).float()
        return F.binary_cross_entropy_with_logits(model(pairs)[:, 0], same)

    for seed in range(4):
        torch.manual_seed(seed)
        says(ask("batch-mixing", trial_of(mlp(16, 1), classes(8), loss)), Outcome.PASS)


class Packed(nn.Module):
    """Takes its samples by falling length, and no others."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.out = nn.GRU(4, 8, batch_first=True), nn.Linear(8, 5)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x.unflatten(1, (2, 4)).repeat(1, 4, 1), lengths, batch_first=True)
        said: Tensor = self.out(self.rnn(packed)[1][-1])
        return said


@pytest.mark.parametrize("both", [True, False])
def test_a_model_that_takes_sorted_samples_only(both: bool) -> None:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        lengths, order = batch[2].sort(descending=True)
        return F.cross_entropy(model(batch[0][order], lengths), batch[1][order] if both else batch[1])

    lengths = 1 + torch.randperm(32, generator=torch.Generator().manual_seed(0)) // 4
    verdict = ask("batch-mixing", trial_of(Packed(), [(x, y, lengths) for x, y in classes(8)], loss))
    assert verdict.outcome is (Outcome.INCONCLUSIVE if both else Outcome.FAIL), verdict
    assert ("must be sorted" in verdict.reason) is both
