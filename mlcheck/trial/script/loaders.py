"""The loaders of one run: where each was made, and the loops that go over it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch.utils._pytree import tree_leaves
from torch.utils.data import DataLoader

from mlcheck.trial.script.frameworks import plain
from mlcheck.trial.script.requests import LoopKey, Pass
from mlcheck.trial.traceback import user_line

_Place = tuple[str, int]


class Loaders:
    """Knows a loop again in another run of the same script: by what the two have in common, see `LoopKey`."""

    def __init__(self) -> None:
        self.training_began = False
        self._births: WeakKeyDictionary[DataLoader[Any], tuple[_Place, int]] = WeakKeyDictionary()
        self._made_at: dict[_Place, int] = {}
        self._passes: WeakKeyDictionary[DataLoader[Any], LoopKey] = WeakKeyDictionary()
        self._learnt: dict[int, Any] = {}

    def note_birth(self, loader: DataLoader[Any]) -> None:
        """To be called while the line that makes the loader is under way."""
        place = user_line()
        number = self._made_at.get(place, 0)
        self._made_at[place] = number + 1
        self._births[loader] = place, -1 if self.training_began else number

    def made_for(self, keys: Iterable[LoopKey | None], otherwise: DataLoader[Any] | None) -> DataLoader[Any] | None:
        """The loader that such a loop will go over, where it is made already."""
        born = {(key.born, key.number) for key in keys if key}
        return next((loader for loader, birth in self._births.items() if birth in born), otherwise)

    def begin_pass(self, loader: DataLoader[Any]) -> Pass:
        """To be called while the line that begins the loop is under way."""
        ended = self._passes.get(loader)
        goes_on = ended is not None and isinstance(sys.exception(), StopIteration)
        key = self._passes[loader] = ended if ended and goes_on else self._key(loader)
        if key.grad:
            self._learnt[id(loader.dataset)] = loader.dataset  # held, so that its id stays its own
        return Pass(key, loader, goes_on)

    def _key(self, loader: DataLoader[Any]) -> LoopKey:
        born, number = self._births.get(plain(loader), (("", 0), -1))
        grad = torch.is_grad_enabled()
        return LoopKey(
            place=user_line(),
            born=born,
            number=number,
            sampler=type(loader.sampler).__name__,
            size=_length(loader.dataset),
            batch_size=loader.batch_size or 0,
            grad=grad,
            of_training=not grad and id(loader.dataset) in self._learnt and reads_all(loader),
        )


def reads_all(loader: DataLoader[Any]) -> bool:
    """Whether it leaves out nothing of its data set, as a sampler of a subset would."""
    return _length(loader.dataset) == _length(loader.sampler) >= 0


def all_of(loader: DataLoader[Any], learnt: set[int]) -> bool:
    """Whether it goes over all of the data that the script trains on; gradients may be off in its body alone."""
    return id(loader.dataset) in learnt and reads_all(loader)


def begin_alike(one: Any, other: Any) -> bool:
    """Whether two data sets have the same first sample, as far as can be seen."""
    if one is other:
        return True
    try:
        firsts = tree_leaves(one[0]), tree_leaves(other[0])
        pairs = [pair for pair in zip(*firsts) if isinstance(pair[0], torch.Tensor | np.ndarray | np.generic)]
        return all(np.array_equal(a, b) for a, b in pairs)
    except Exception:
        return True


def _length(of: Any) -> int:
    try:
        return len(of)
    except TypeError:
        return -1
