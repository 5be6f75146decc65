"""The program constructed again: as a restart, and as two ranks."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from probe_programs import ask, classes, cross_entropy, mlp, trial_of
from torch.utils.data import DataLoader, TensorDataset

from mlcheck.core.check import Verdict
from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

SPLIT, RANKS = "split-changes-between-starts", "ranks-read-same-data"
BATCHES = classes(8, batches=16)
Data = tuple[list[Any], list[Any]]


def program(data: Callable[[int, int], Data], slots: int = 1) -> Trial:
    """A trial whose training and validation batches are `data(rank, world)`, drawn at every construction."""

    def construct(rank: int, world: int) -> Trial:
        torch.manual_seed(0)
        training, validation = data(rank, world)
        trial = trial_of(mlp(), training, cross_entropy)
        trial.validation_batches = lambda: iter(validation)
        trial.slots = slots
        return trial

    trial = construct(0, 1)
    trial.again = construct
    return trial


def verdict(rule: str, outcome: Outcome, trial: Trial) -> Verdict:
    found = ask(rule, trial)
    assert found.outcome is outcome, found
    return found


def sharded(rank: int, world: int) -> Data:
    return BATCHES[:12][rank::world], BATCHES[12:][rank::world]


def test_a_split_that_is_seeded_is_the_same_after_a_restart() -> None:
    def seeded(*_: int) -> Data:
        order = torch.randperm(16).tolist()  # the framework seeds every start alike
        return [BATCHES[i] for i in order[:12]], [BATCHES[i] for i in order[12:]]

    assert "the same 128 samples" in verdict(SPLIT, Outcome.PASS, program(seeded)).summary


def test_a_split_that_nobody_seeded_is_another_after_a_restart() -> None:
    starts = itertools.count()

    def drawn(*_: int) -> Data:
        first = 2 * next(starts)
        return BATCHES[:first] + BATCHES[first + 4 :], BATCHES[first : first + 4]

    told = verdict(SPLIT, Outcome.FAIL, program(drawn)).findings[0].message
    assert told.endswith("after a restart 64 of 128 validation samples are others, and 64 are trained on")


def test_statistics_that_are_rounded_otherwise_are_no_other_split() -> None:
    starts = itertools.count()

    def scaled(*_: int) -> Data:
        scale = 1 + 1e-6 * next(starts)
        return BATCHES[:12], [(x * scale, y) for x, y in BATCHES[12:]]

    verdict(SPLIT, Outcome.PASS, program(scaled))


def test_validation_that_is_drawn_at_every_pass_cannot_be_compared() -> None:
    trial = program(sharded)
    passes = itertools.count()
    trial.validation_batches = lambda: iter([(BATCHES[0][0] + next(passes), BATCHES[0][1])])
    assert "two passes" in verdict(SPLIT, Outcome.INCONCLUSIVE, trial).reason


def scaled_by_rank(order_of: Callable[[int], list[int]], part: int = 1, labels: int = 5) -> Trial:
    """Rows that each rank scales by its own training rows; every rank deals out its part of them by a sampler."""
    x, y = torch.randn(300, 8), torch.randint(labels, (300,))

    def construct(rank: int, world: int) -> Trial:
        torch.manual_seed(0)
        order = order_of(rank)[:: part if world > 1 else 1]
        cut = len(order) * 2 // 3
        mean = x[order[:cut]].mean(0)
        wide = 1 + rank * 0.01
        sets = [TensorDataset((x[rows] - mean * wide) / wide, y[rows]) for rows in (order[:cut], order[cut:])]
        loaders = [DataLoader(one, 16, sampler=range(rank, len(one), world)) for one in sets]
        trial = trial_of(mlp(), [], cross_entropy)
        trial.train_batches, trial.validation_batches = (partial(iter, loader) for loader in loaders)
        trial.loaders = dict(zip(("training", "validation"), loaders))
        return trial

    trial = construct(0, 1)
    trial.again = construct
    return trial


def drawn(seed: int) -> list[int]:
    return torch.randperm(300, generator=torch.Generator().manual_seed(seed)).tolist()


def test_a_split_of_each_rank_is_told_by_its_labels_where_rows_are_scaled_otherwise() -> None:
    told = verdict(RANKS, Outcome.WARN, scaled_by_rank(drawn)).findings[0].message
    assert "the ranks split the data differently: at least" in told


def test_where_labels_tell_nothing_the_order_of_the_numbers_in_a_column_does() -> None:
    told = verdict(RANKS, Outcome.WARN, scaled_by_rank(drawn, labels=1)).findings[0].message
    assert "the ranks split the data differently: at least" in told


ONE_SPLIT = [
    partial(scaled_by_rank, lambda _: drawn(3)),
    partial(scaled_by_rank, drawn, part=2),
    partial(scaled_by_rank, lambda _: drawn(3), labels=1),
    partial(scaled_by_rank, drawn, part=2, labels=1),
]


@pytest.mark.parametrize("trial", ONE_SPLIT)
def test_one_split_for_all_ranks_and_parts_of_the_data_by_hand_pass(trial: Callable[[], Trial]) -> None:
    verdict(RANKS, Outcome.PASS, trial())


def test_a_program_that_cannot_be_constructed_again_is_not_asked() -> None:
    trial = program(sharded)
    trial.again = None
    for rule in (SPLIT, RANKS):
        verdict(rule, Outcome.SKIP, trial)


def test_ranks_that_share_the_data_pass() -> None:
    assert "first 4 batches" in verdict(RANKS, Outcome.PASS, program(sharded)).summary


@pytest.mark.parametrize("batches", [1, 16])
def test_samples_that_are_all_alike_tell_nothing_of_two_ranks(batches: int) -> None:
    alike = [(torch.ones(8, 8), torch.ones(8, dtype=torch.long))] * batches
    assert "alike" in verdict(RANKS, Outcome.INCONCLUSIVE, program(lambda *_: (alike[:12], BATCHES[12:]), 2)).reason


def test_ranks_that_read_the_same_fail_where_there_are_several() -> None:
    def whole(*_: int) -> Data:
        return BATCHES[:12], BATCHES[12:]

    told = verdict(RANKS, Outcome.FAIL, program(whole, slots=2)).findings[0].message
    assert "both would read the same batches (4 of 4 are equal)" in told
    verdict(RANKS, Outcome.WARN, program(whole, slots=1))


def test_ranks_that_split_differently() -> None:
    def by_rank(rank: int, _: int) -> Data:
        held = BATCHES[4 * rank : 4 * rank + 4]
        return [batch for batch in BATCHES if all(batch is not other for other in held)][rank:], held

    told = verdict(RANKS, Outcome.FAIL, program(by_rank, slots=2)).findings[0].message
    assert "samples that one rank trains on are validated by another" in told


def test_a_graph_that_is_a_batch_by_itself_is_the_same_for_every_rank() -> None:
    """Every batch of a rank is the one graph; where its batches differ, those of two ranks should too."""
    verdict(RANKS, Outcome.WARN, program(lambda *_: (BATCHES[:4], [])))
    one_graph = verdict(RANKS, Outcome.INCONCLUSIVE, program(lambda *_: (BATCHES[:1] * 4, [])))
    assert "are alike" in one_graph.reason
