"""What a model keeps of one batch and uses in the next."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, trial_on
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import TensorDataset

from mlcheck.core.outcome import Outcome


class Carrying(nn.Module):
    """Begins each batch where the last one ended."""

    def __init__(self) -> None:
        super().__init__()
        self.walk, self.head = nn.GRU(8, 8, batch_first=True), nn.Linear(8, 5)
        self.state: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        fits = self.state is not None and self.state.shape[1] == len(x)
        states, last = self.walk(x.unsqueeze(1), self.state if fits else None)
        self.state = last.detach()
        return self.head(states[:, -1])  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("shuffle", "resets", "outcome"),
    [(True, False, Outcome.FAIL), (False, False, Outcome.INCONCLUSIVE), (True, True, Outcome.INCONCLUSIVE)],
    ids=("shuffled", "in order", "reset by the loop"),
)
def test_a_state_that_goes_on_from_batch_to_batch(shuffle: bool, resets: bool, outcome: Outcome) -> None:
    x, y = (torch.cat(parts) for parts in zip(*classes(8), strict=True))
    model = Carrying()

    def loss(net: Any, batch: Any) -> Tensor:
        net.state = None if resets else net.state
        return F.cross_entropy(net(batch[0]), batch[1])

    verdict = ask("batch-mixing", trial_on(TensorDataset(x, y), model=model, loss=loss, shuffle=shuffle))
    assert verdict.outcome is outcome, verdict.reason or verdict.summary
    assert "gives other outputs" in verdict.reason + verdict.summary
    if outcome is Outcome.FAIL:
        assert "`state` keeps a value for each row" in verdict.summary


class CarryingPacked(Carrying):
    """Takes a batch that is smaller than the one before, and no larger one."""

    def forward(self, x: Tensor) -> Tensor:
        packed = pack_padded_sequence(x.unsqueeze(1), torch.ones(len(x)), batch_first=True, enforce_sorted=False)
        _, self.state = self.walk(packed, self.state)
        self.state = self.state.detach()
        return self.head(self.state[-1])  # type: ignore[no-any-return]


def test_a_state_that_fewer_rows_would_spoil() -> None:
    x, y = (torch.cat(parts) for parts in zip(*classes(8), strict=True))
    trial = trial_on(TensorDataset(x, y), model=CarryingPacked(), loss=lambda net, b: F.cross_entropy(net(b[0]), b[1]))
    verdict = ask("batch-mixing", trial)
    assert verdict.outcome is Outcome.FAIL, verdict.reason or verdict.summary
    assert "`state` keeps a value for each row" in verdict.summary
