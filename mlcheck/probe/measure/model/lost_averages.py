"""Averages of a copy's weights and the model's own that a training step computes, and that move nothing.

`target = 0.99 * target + 0.01 * weight` gives a name to another tensor, and an entry of a state dict is no weight until
it is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.place import user_location
from mlcheck.probe.measure.tree import copied
from mlcheck.trial.sandbox import cells_of
from mlcheck.trial.tensors import TensorCell
from mlcheck.trial.trial import Trial

FEW = 2
_SCALED = {getattr(home, name) for home in (torch, Tensor) for name in ("mul", "multiply", "detach", "clone")} | {
    Tensor.__mul__,
    Tensor.__rmul__,
    Tensor.data.__get__,  # type: ignore[attr-defined]
}
_JOINED = {getattr(home, name) for home in (torch, Tensor) for name in ("add", "lerp")} | {
    Tensor.__add__,
    Tensor.__radd__,
}
_JOINED_IN_PLACE = {Tensor.add_, Tensor.lerp_}
Tags = frozenset[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class LostAverages:
    """`weights` of the module or dict `copy` whose averages were made at `place`."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 3

    copy: str
    weights: int
    place: Location

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - one step, whatever the limit
        trained = [
            weight for each in trial.optimizers.values() for group in each.param_groups for weight in group["params"]
        ]
        before = _tensors(trial)
        known = {id(weight) for weight in trained}
        held = {name: tensor for name, tensor in before.items() if id(tensor) not in known and tensor.numel() > 1}
        copies = {name: tensor for name, tensor in held.items() if any(tensor.shape == own.shape for own in trained)}
        values = {name: tensor.detach().clone() for name, tensor in copies.items()}
        watch = Averages(copies.values(), trained)
        with watch:
            trial.train_step(copied(first_batches(trial, 1)[0]), 0)
        after = _tensors(trial)
        averaged = [name for name, tensor in copies.items() if id(tensor) in watch.places]
        lost = [name for name in averaged if torch.equal(after.get(name, copies[name]), values[name])]
        if len(lost) < max(FEW, len(averaged)):
            raise NotMeasured("a step computes no averages of weights that it does not keep")
        return cls(_root(lost), len(lost), next(iter(watch.places.values())))


def _tensors(trial: Trial) -> dict[str, Tensor]:
    return {cell.name: cell.tensor for cell in cells_of(trial) if isinstance(cell, TensorCell)}


def _root(names: list[str]) -> str:
    """What all of these have in common, up to a dot."""
    parts = [name.split(".") for name in names]
    shared = [words[0] for words in zip(*parts) if len(set(words)) == 1]
    return ".".join(shared)


class Averages(TorchFunctionMode):
    """Follows weights through factors, as far as sums of a copy's and the model's own, or of one with itself."""

    def __init__(self, copies: Iterable[Tensor], trained: Iterable[Tensor]) -> None:
        super().__init__()
        self.places: dict[int, Location] = {}
        self.of_itself: dict[int, Location] = {}
        self._tags: dict[int, Tags] = {id(one): frozenset({("copy", id(one))}) for one in copies}
        self._tags |= {id(one): frozenset({("own", id(one))}) for one in trained}
        self._kept: list[Tensor] = []

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and result.grad_fn is None:
            with suppress(Exception):  # tensors that stand for others, as within vmap, are not looked at
                self._look(func, [one for one in args if isinstance(one, Tensor)], result)
        return result

    def _look(self, func: Callable[..., Any], tensors: list[Tensor], result: Tensor) -> None:
        tags = [self._tags[id(one)] for one in tensors if id(one) in self._tags]
        if not tags or any(one.shape != result.shape for one in tensors if one.ndim):
            return
        joined = frozenset().union(*tags)
        if len(tags) == 1 and func in _SCALED:
            self._tags[id(result)] = joined
            self._kept.append(result)
        elif len(tags) == 2 and func in _JOINED and sorted(kind for kind, _ in joined) == ["copy", "own"]:
            copy = next(which for kind, which in joined if kind == "copy")
            self.places.setdefault(copy, user_location())
        elif len(tags) == 2 and func in _JOINED | _JOINED_IN_PLACE and [kind for kind, _ in joined] == ["own"]:
            self.of_itself.setdefault(next(which for _, which in joined), user_location())
