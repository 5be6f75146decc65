"""The passes that a rank makes over its loaders: which samples, in which order, and whether it trains on them."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from mlcheck.trial.ranks.journal import Journal
from mlcheck.trial.ranks.models import Enough, ModelWatch
from mlcheck.trial.ranks.samples import digest, first_sample, length, noise, plan, sampler, size
from mlcheck.trial.ranks.story import Pass
from mlcheck.trial.traceback import user_line

_SHORT = 12
_FEW = 3
_MOST_BATCHES = 64
_PASSES = 2


@dataclass
class _Pass:
    loader: DataLoader[Any]
    number: int
    epoch: int
    place: tuple[str, int]
    plan: tuple[int, ...]
    noise: int
    indices: list[tuple[int, ...]] = field(default_factory=list)
    digests: list[int] = field(default_factory=list)
    steps_before: int = 0
    backwards_before: int = 0
    calls_before: int = 0
    told: bool = False


class LoaderWatch:
    """While installed, cuts passes over loaders short and notes them; the third over one that trains ends the rank."""

    def __init__(self, journal: Journal, models: ModelWatch) -> None:
        self._journal, self._models = journal, models
        self._numbers: weakref.WeakKeyDictionary[DataLoader[Any], int] = weakref.WeakKeyDictionary()
        self._epochs: dict[int, int] = {}
        self._trained: dict[int, int] = {}
        self._open: list[_Pass] = []
        self._stack = ExitStack()

    def install(self) -> None:
        for owner, name, value in (
            (DataLoader, "__iter__", self._passing(DataLoader.__iter__)),
            (_BaseDataLoaderIter, "_next_index", _remembering(_BaseDataLoaderIter._next_index)),
        ):
            self._stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)

    def remove(self) -> None:
        self._stack.close()

    def _passing(self, original: Any) -> Any:
        @functools.wraps(original)
        def __iter__(loader: DataLoader[Any]) -> Iterator[Any]:  # noqa: N807
            place = user_line()
            if torch.utils.data.get_worker_info() is not None:
                return original(loader)  # type: ignore[no-any-return]
            begun = self._begin(loader, place)
            real = original(loader)
            with suppress(AttributeError):
                real._mlcheck_drawn = []
            return _Watched(self, begun, real)

        return __iter__

    def _begin(self, loader: DataLoader[Any], place: tuple[str, int]) -> _Pass:
        number = self._numbers.setdefault(loader, len(self._numbers))
        self.finish()
        if self._trained.get(number, 0) >= _PASSES:
            raise Enough
        epoch = self._epochs.get(number, 0)
        self._epochs[number] = epoch + 1
        models = self._models
        begun = _Pass(
            loader, number, epoch, place, plan(loader), noise(loader),
            steps_before=models.steps, backwards_before=models.all_backwards, calls_before=models.calls,
        )  # fmt: skip
        self._open.append(begun)
        models.taken = 0
        return begun

    def is_enough(self, of: _Pass) -> bool:
        """Loops that prepare data are never cut short, nor those that are short by themselves."""
        taken, models = len(of.digests), self._models
        if length(of.loader) in range(_SHORT + 1) or taken < _FEW:
            return False
        if models.all_backwards > of.backwards_before:
            return models.steps - of.steps_before >= _FEW or taken >= _MOST_BATCHES
        return models.calls > of.calls_before and models.all_backwards > 0

    def taken(self, of: _Pass, batch: Any, drawn: list[Any]) -> None:
        number = len(of.digests)
        of.digests.append(digest(batch))
        if number < len(drawn) and isinstance(drawn[number], list) and all(isinstance(i, int) for i in drawn[number]):
            of.indices.append(tuple(drawn[number]))
        self._models.taken += 1

    def end(self, of: _Pass, *, over: bool) -> None:
        """Note a pass once, when it is over, was cut or another begins."""
        if of.told:
            return
        of.told = True
        models, loader = self._models, of.loader
        steps, backwards = models.steps - of.steps_before, models.all_backwards - of.backwards_before
        if backwards:
            self._trained[of.number] = self._trained.get(of.number, 0) + 1
        ordered_by = sampler(loader)
        known = len(of.indices) == len(of.digests)
        content, varies = first_sample(loader) if of.epoch == 0 else (0, False)
        self._journal.note(
            Pass(
                loader=of.number,
                place=of.place,
                sampler=type(ordered_by).__name__,
                shuffles=bool(getattr(ordered_by, "shuffle", False)) and hasattr(ordered_by, "set_epoch"),
                epoch=of.epoch,
                length=length(loader),
                samples=size(loader),
                plan=of.plan,
                indices=tuple(of.indices) if known else (),
                digests=tuple(of.digests),
                batches=len(of.digests),
                steps=steps,
                backwards=backwards,
                over=over,
                calls=models.calls > of.calls_before,
                content=content,
                noise=of.noise,
                varies=varies,
            )
        )

    def finish(self) -> None:
        """A pass inside of another leaves that one open; one that was broken off has seen its last batch."""
        for of in self._open:
            if of.told or not of.digests:
                continue
            nested = self._models.all_backwards > of.backwards_before and of.loader is not self._open[-1].loader
            if not nested:
                self.end(of, over=False)

    def finish_all(self) -> None:
        for of in self._open:
            self.end(of, over=False)


class _Watched:
    """A pass whose batches are counted."""

    def __init__(self, watch: LoaderWatch, of: _Pass, real: Any) -> None:
        self._watch, self._of, self._real = watch, of, real

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._watch.is_enough(self._of):
            self._watch.end(self._of, over=False)
            raise StopIteration
        try:
            batch = next(self._real)
        except StopIteration:
            self._watch.end(self._of, over=True)
            raise
        self._watch.taken(self._of, batch, getattr(self._real, "_mlcheck_drawn", []))
        return batch

    def __len__(self) -> int:
        return len(self._of.loader)


def _remembering(original: Any) -> Any:
    def _next_index(batches: Any) -> Any:
        drawn = original(batches)
        if hasattr(batches, "_mlcheck_drawn"):
            batches._mlcheck_drawn.append([drawn] if isinstance(drawn, int) else drawn)
        return drawn

    return _next_index
