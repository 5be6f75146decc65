"""Passes that give nothing: the second over what was used up, validation that drops all it has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from probe_programs import ask, says, trial_on
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

RULE = "pass-without-batches"


def table(rows: int = 96) -> TensorDataset:
    generator = torch.Generator().manual_seed(0)
    return TensorDataset(torch.randn(rows, 8, generator=generator), torch.randint(5, (rows,), generator=generator))


class Rows(IterableDataset[tuple[Tensor, ...]]):
    """Goes over a table: by one generator for all passes, or by one for each; `endless` never comes to an end."""

    def __init__(self, anew: bool, endless: bool = False) -> None:
        self.anew, self.endless = anew, endless
        self.rows = self.walk()

    def walk(self) -> Iterator[tuple[Tensor, ...]]:
        while True:
            yield from (table()[i] for i in range(96))
            if not self.endless:
                return

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        return self.walk() if self.anew else self.rows


def streamed(data: Rows) -> Trial:
    return trial_on(data, table(64), shuffle=False)


def test_a_generator_that_one_pass_uses_up() -> None:
    says(ask(RULE, streamed(Rows(anew=False))), Outcome.WARN, "the first gave 3 batches, the second none")


def test_passes_that_begin_anew_or_never_end() -> None:
    says(ask(RULE, streamed(Rows(anew=True))), Outcome.PASS, "gave 3 batches, and the next 3")
    assert ask(RULE, streamed(Rows(anew=False, endless=True))).outcome is Outcome.PASS
    assert ask(RULE, trial_on(table())).outcome is Outcome.PASS


def validated(**loading: Any) -> Trial:
    trial = trial_on(table(), table(20))
    held_out = DataLoader(table(20), **loading)
    trial.validation_batches = lambda: iter(held_out)
    trial.loaders = {**trial.loaders, "validation": held_out}
    return trial


def test_validation_that_drops_all_it_has() -> None:
    verdict = ask(RULE, validated(batch_size=32, drop_last=True))
    says(verdict, Outcome.FAIL, "the validation loader gives no batch though its data set has 20 samples")
    for sound in (validated(batch_size=32), validated(batch_size=20, drop_last=True), validated(batch_size=8)):
        says(ask(RULE, sound), Outcome.PASS)
