"""Probes of what repeats, in the data or among workers: programs with the fault, and such that only look like it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from data_programs import streamed, table
from probe_programs import ask, mlp, says, trial_on
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from mlcheck.core.outcome import Outcome


def test_a_few_whole_numbers_repeat_by_chance() -> None:
    ids = TensorDataset(torch.randint(5, (300, 3)), torch.zeros(300).long())
    assert ask("samples-repeat", trial_on(ids)).outcome is Outcome.PASS


class Pairs(Dataset[Any]):
    """As for metric learning: whatever the index, two samples drawn at random."""

    def __init__(self) -> None:
        self.x = torch.randn(128, 40, generator=torch.Generator().manual_seed(0))

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        one, other = torch.randint(128, (2,)).tolist()
        return torch.cat([self.x[one], self.x[other]])[:8], index % 2


def test_pairs_drawn_at_random_are_no_repetition() -> None:
    verdict = ask("samples-repeat", trial_on(Pairs()))
    assert verdict.outcome is Outcome.INCONCLUSIVE, verdict.summary
    assert "draws its samples at random" in verdict.reason


class Triplets(Dataset[Any]):
    """A fixed anchor with a positive and a negative drawn anew; with `spread`, a noisy anchor instead."""

    def __init__(self, x: Tensor, spread: float = 0.0) -> None:
        self.x, self.spread = x, spread

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        other = self.x[int(torch.randint(len(self.x), ()))]
        noise = self.spread * torch.randn(self.x.shape[1])
        return {"anchor": self.x[index], "other": self.x[index] + noise if self.spread else other}


def test_partners_that_are_drawn_at_each_read_are_no_augmentation() -> None:
    x = table().tensors[0]
    drawn = trial_on(Triplets(x), Triplets(x))
    says(ask("validation-augmented", drawn), Outcome.INCONCLUSIVE, "another sample's at each read")
    says(ask("validation-augmented", trial_on(Triplets(x), Triplets(x, spread=0.1))), Outcome.WARN, "`other`")


class Endless(IterableDataset[Any]):
    """Random rows without an end; each worker draws its own, or all the same, or one batch again and again."""

    def __init__(self, own: bool, again: int = 0, rows: int = 3000) -> None:
        self.own, self.again, self.rows = own, again, rows

    def __iter__(self) -> Iterator[Any]:
        worker = torch.utils.data.get_worker_info()
        seed = worker.id if worker and self.own else 0
        generator, given = torch.Generator().manual_seed(seed), 0
        while given < self.rows:
            if self.again and given % self.again == 0:
                generator.manual_seed(seed)
            given += 1
            yield torch.randn(8, generator=generator), int(torch.randint(5, (), generator=generator))


def test_workers_of_an_endless_stream_that_draw_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlcheck.probe.measure.passes.SECONDS", 0.3)
    alike, apart = (streamed(Endless(own, rows=1_000_000)) for own in (False, True))
    says(ask("iterable-not-sharded", alike), Outcome.FAIL, "one of each worker, and all equal")
    assert ask("iterable-not-sharded", apart).outcome is not Outcome.FAIL


def test_a_stream_that_gives_one_batch_again_and_again() -> None:
    says(ask("samples-repeat", trial_on(Endless(True, 32), shuffle=False)), Outcome.FAIL, "one batch again and again")
    says(ask("samples-repeat", trial_on(Endless(True), shuffle=False)), Outcome.PASS, "different batches")


def drawn_again(x: Tensor) -> TensorDataset:
    """Rows drawn with replacement."""
    rows = torch.randint(len(x), (400,), generator=torch.Generator().manual_seed(3))
    return TensorDataset(x[rows], torch.zeros(400, dtype=torch.long))


def halves(data: TensorDataset) -> Any:
    x, y = data.tensors
    return trial_on(TensorDataset(x[:300], y[:300]), TensorDataset(x[300:], y[300:]), model=mlp(x.shape[1]))


def test_rows_that_were_repeated_before_the_split() -> None:
    verdict = ask("splits-overlap", halves(drawn_again(table(300).tensors[0])))
    says(verdict, Outcome.WARN, "the data was repeated before it was split")


def test_ratings_that_are_cut_off_repeat_by_chance() -> None:
    """A user and an item meet again, and their stars are at the end of the scale."""
    draw = torch.Generator().manual_seed(4)
    users, items = torch.randint(30, (900, 1), generator=draw), torch.randint(3, (900, 1), generator=draw)
    stars = (3 + 2 * torch.randn(900, 1, generator=draw)).clamp(1, 5)
    training, held_out = ([part[rows] for part in (users, items, stars)] for rows in (slice(600), slice(600, None)))
    apart = trial_on(TensorDataset(*training), TensorDataset(*held_out))
    says(ask("splits-overlap", apart), Outcome.PASS, "no more than equal ones occur")
    rated = torch.cat([users, items, stars], 1)
    together = trial_on(TensorDataset(rated[:600], stars[:600]), TensorDataset(rated[600:], stars[600:]))
    says(ask("splits-overlap", together), Outcome.PASS, "no more than equal ones occur")


def test_rows_of_few_values_repeat_by_chance() -> None:
    codes = torch.randint(4, (300, 3), generator=torch.Generator().manual_seed(4)).float() / 3 - 0.123
    says(ask("splits-overlap", halves(drawn_again(codes))), Outcome.PASS, "no more than equal ones occur")
