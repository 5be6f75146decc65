"""Labels that are wrong, and labels that only look it: few, of classes that mix, of samples without one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from data_programs import Changed
from label_programs import clusters, one_logit
from probe_programs import ask, says, trial_on
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from mlcheck.core.outcome import Outcome


def relabelled(data: TensorDataset, share: float) -> TensorDataset:
    x, y = data.tensors
    changed = y.clone()
    some = torch.randperm(len(y), generator=torch.Generator().manual_seed(3))[: int(share * len(y))]
    changed[some] = (y[some] + 1) % 5
    return TensorDataset(x, changed)


def test_a_fifth_of_the_labels_wrong() -> None:
    verdict = ask("label-noise", trial_on(relabelled(clusters(), 0.2), clusters(seed=2)))
    says(verdict, Outcome.WARN, "of labels", "in validation 0.0 % do (at most ")
    assert verdict.numbers["low"] < 0.2 < verdict.numbers["high"]
    assert verdict.figures[0].kind == "table"


def test_labels_that_an_augmentation_makes_wrong() -> None:
    def turned(index: int, sample: tuple[Tensor, Tensor]) -> Any:
        other = clusters().tensors[0][(index + 1) % 400]  # of the next class
        return (other if torch.rand(()) < 0.2 else sample[0]) + 0.01 * torch.randn(8), sample[1]

    verdict = ask("label-noise", trial_on(Changed(clusters(), turned), clusters(seed=2)))
    says(verdict, Outcome.WARN, "of labels", "training samples are augmented, and may no longer show")


@pytest.mark.parametrize("share", [0.0, 0.03])
def test_few_wrong_labels_pass(share: float) -> None:
    says(ask("label-noise", trial_on(relabelled(clusters(), share), clusters(seed=2))), Outcome.PASS)


def test_one_far_value_hides_no_other_column() -> None:
    far = clusters()
    far.tensors[0][17, 3] = 1e9
    says(ask("label-noise", trial_on(far, clusters(seed=2))), Outcome.PASS)
    says(ask("label-noise", trial_on(relabelled(far, 0.2), clusters(seed=2))), Outcome.WARN, "of labels")


def test_classes_that_overlap_are_no_noise() -> None:
    overlapping = trial_on(clusters(spread=12.0), clusters(seed=2, spread=12.0))
    assert ask("label-noise", overlapping).outcome in (Outcome.PASS, Outcome.INCONCLUSIVE)


def test_noise_is_told_from_overlap_by_held_out_samples() -> None:
    few = clusters(rows=20, seed=2)
    for held_out in (few, relabelled(clusters(seed=2), 0.2)):
        verdict = ask("label-noise", trial_on(relabelled(clusters(), 0.2), held_out))
        assert verdict.outcome is not Outcome.WARN, verdict.summary


def zero_or_one(data: TensorDataset) -> TensorDataset:
    """Whether the class is one of two."""
    return TensorDataset(data.tensors[0], (data.tensors[1] < 2).float())


def test_labels_of_one_logit_are_labels_too() -> None:
    flipped_some = zero_or_one(clusters())
    some = torch.randperm(400, generator=torch.Generator().manual_seed(3))[:100]
    flipped_some.tensors[1][some] = 1 - flipped_some.tensors[1][some]
    held_out = zero_or_one(clusters(seed=2))
    says(ask("label-noise", trial_on(flipped_some, held_out, loss=one_logit)), Outcome.WARN, "of labels")
    says(ask("label-noise", trial_on(zero_or_one(clusters()), held_out, loss=one_logit)), Outcome.PASS)


def test_one_logit_is_not_taken_for_another_field_of_the_batch() -> None:
    x, y = clusters().tensors
    order = y.argsort()  # the first batch has class 0 alone, as the other target has zeros alone
    digit, rare = y[order], torch.zeros(len(y))
    trial = trial_on(TensorDataset(x[order], digit, rare), loss=lambda m, b: one_logit(m, (b[0], b[2])), shuffle=False)
    says(ask("label-out-of-range", trial), Outcome.PASS, "labels 0 to 0 for 2 outputs")


def test_labels_of_one_logit_in_order() -> None:
    x, y = zero_or_one(clusters()).tensors
    order = y.argsort()
    trial = trial_on(TensorDataset(x[order], y[order]), loss=one_logit, shuffle=False)
    says(ask("training-data-not-shuffled", trial), Outcome.FAIL, "changes 1 times")


@pytest.mark.parametrize("none", [-1, 4])
def test_samples_without_a_label_are_no_noise(none: int) -> None:
    """As of semi-supervised training: the loss leaves them out."""
    data = clusters(800)
    y = data.tensors[1] % 4
    seen = torch.where(torch.rand(800, generator=torch.Generator().manual_seed(5)) < 0.4, none, y)

    def loss(model: nn.Module, batch: Any) -> Tensor:
        return F.cross_entropy(model(batch[0]), batch[1], ignore_index=none)

    x, whole = clusters(seed=2).tensors
    trial = trial_on(TensorDataset(data.tensors[0], seen), TensorDataset(x, whole % 4), loss=loss)
    says(ask("label-noise", trial), Outcome.PASS)
