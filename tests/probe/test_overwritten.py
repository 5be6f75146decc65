"""Data sets that change what they hold as they are read, and such as only look like it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from data_programs import table
from probe_programs import ask, says, trial_on
from torch import Tensor
from torch.utils.data import Dataset, Subset

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

RULE = "overwritten-in-place"


class Stored(Dataset[Any]):
    """Rows in memory, read by a function of the data set and an index."""

    def __init__(self, read: Callable[[Any, int], Any]) -> None:
        self.x, self.y = table().tensors
        self.array, self.rows = self.x.numpy().copy(), [row.clone() for row in self.x]
        self.buffer, self.cache = torch.zeros(8), torch.zeros(len(self.x), 8)
        self.known, self.reads = set[int](), torch.zeros(len(self.x))
        self.draws = np.random.default_rng(0)
        self.read = read

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: int) -> Any:
        return self.read(self, index), self.y[index]


def scaled(data: Any, index: int) -> Tensor:
    row: Tensor = data.x[index]
    row *= 0.5 + torch.rand(())
    return row


def halved_and_copied(data: Any, index: int) -> Tensor:
    data.array[index] /= 2
    return torch.tensor(data.array[index])


def noise_of_its_own(data: Any, index: int) -> Tensor:
    row: Tensor = data.rows[index]
    row += torch.from_numpy(data.draws.normal(size=8)).float()
    return row.flip(0)


def nowhere_to_be_found() -> Callable[[Any, int], Any]:
    x = table().tensors[0]

    def read(_: Any, index: int) -> Tensor:
        return x[index].sub_(0.5).mul_(2)

    return read


WRONG: dict[str, Any] = {
    "scaled": scaled,
    "halved and copied": halved_and_copied,
    "noise": noise_of_its_own,
    "in a closure": nowhere_to_be_found(),
}


def of(read: Any, **loading: Any) -> Trial:
    return trial_on(Stored(read), table(seed=2), **loading)


@pytest.mark.parametrize("how", WRONG)
def test_stored_samples_change(how: str) -> None:
    says(ask(RULE, of(WRONG[how])), Outcome.FAIL, "changes it where it is stored", "sample[0]")


def test_a_part_of_a_data_set() -> None:
    trial = trial_on(Subset(Stored(halved_and_copied), range(100)), table(seed=2))
    says(ask(RULE, trial), Outcome.FAIL, "reading a training sample")


def test_samples_are_left_as_they_were() -> None:
    data = Stored(lambda own, index: own.x[index].mul_(2))
    before = data.x.clone()
    ask(RULE, trial_on(data))
    assert torch.equal(data.x[:1], 2 * before[:1])
    assert torch.equal(data.x[1:100], before[1:100])


def filled_lazily(data: Any, index: int) -> Tensor:
    if index not in data.known:
        data.cache[index] = data.x[index] / 3
        data.known.add(index)
    row: Tensor = data.cache[index]
    return row


def filled_anew(data: Any, index: int) -> Tensor:
    buffer: Tensor = data.buffer
    return buffer.copy_(data.x[index] + torch.randn(8))


def filled_anew_by_own_draws(data: Any, index: int) -> Tensor:
    buffer: Tensor = data.buffer
    return buffer.copy_(data.x[index] + torch.from_numpy(data.draws.normal(size=8)))


def counted(data: Any, index: int) -> Tensor:
    data.reads[index] += 1
    return data.x[index] + 0.1 * torch.randn(8)


def less_noise_with_every_read(data: Any, index: int) -> Tensor:
    data.reads[index] += 1
    return data.x[index] + torch.randn(8) / data.reads[index]


RIGHT: dict[str, Any] = {
    "views": lambda data, index: data.x[index],
    "drawn by own numbers": lambda data, index: data.x[index] + torch.from_numpy(data.draws.normal(size=8)).float(),
    "a copy": lambda data, index: data.x[index].clone().mul_(torch.rand(())),
    "clamped once": lambda data, index: data.x[index].clamp_(-1, 1),
    "cache": filled_lazily,
    "buffer": filled_anew,
    "buffer with own draws": filled_anew_by_own_draws,
    "count": counted,
    "count that is used": less_noise_with_every_read,
    "expanded": lambda data, index: data.x[index, :1].expand(8),
}


@pytest.mark.parametrize("how", RIGHT)
def test_stored_samples_stay(how: str) -> None:
    says(ask(RULE, of(RIGHT[how])), Outcome.PASS, "stored samples stay")


def test_memory_of_processes_that_end() -> None:
    assert ask(RULE, of(scaled, num_workers=1)).outcome is Outcome.SKIP
    says(ask(RULE, of(scaled, num_workers=1, persistent_workers=True)), Outcome.FAIL, "where it is stored")
