"""Targets that are noise drawn in the step itself: does what is to tell it know which noise it was?

The step is repeated with the same random numbers but for that one draw. Where the prediction is the same, bit for bit,
nothing that the model was given depends on what it is asked for. Weights are moved a little first: a last layer that
begins with zeros on purpose gives the same answer to everything.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.loss.losses import LOSSES, LossCall, LossWatch
from mlcheck.probe.measure.loss.written_pairs import SUBTRACTIONS
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.place import user_location
from mlcheck.probe.measure.tree import copied
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

NORMAL = {"randn", "randn_like", "normal", "normal_"}
_OF_NUMBERS = {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"}
_LESS = {function.__name__ for function in SUBTRACTIONS}
_SIZES = {"pow", "__pow__", "square", "abs", "__abs__", "absolute"}  # of errors, in a loss that is written out
_FEW = 8
_LITTLE = 0.02


@dataclass(frozen=True, slots=True)
class DrawnTarget:
    """Normal numbers that a loss is given as its target, or that are taken from a prediction in one written out.

    `known` says that the prediction changes with them. `loss` has no name where it is written out.
    """

    loss: str
    place: Location
    drawn: Location
    known: bool


@dataclass(frozen=True, slots=True)
class DrawnTargets:
    """Those of one training step."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 3

    targets: tuple[DrawnTarget, ...]

    @classmethod
    def absent(cls, called: frozenset[str]) -> str:
        losses = {function.__name__ for function, kind in LOSSES.items() if kind in _OF_NUMBERS}
        compared = called & losses or (called & _LESS and called & _SIZES)
        return "" if called & NORMAL and compared else "no loss is given normal numbers that a step draws"

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few steps, whatever the limit
        batch = first_batches(trial, 1)[0]
        first, again = _watched(trial, batch, None), _watched(trial, batch, None)
        numbers = [(place, call, first.draws.of(call.target)) for place, call in enumerate(first.calls)]
        pairs = [(place, call, number) for place, call, number in numbers if number is not None]
        if not pairs:
            raise NotMeasured("no loss is given normal numbers that a step draws")
        found = []
        for place, call, number in pairs:
            if not again.alike(place, call):
                raise NotMeasured("the same step under the same random numbers is not the same again")
            other = _watched(trial, batch, number)
            known = not other.alike(place, call)
            found.append(DrawnTarget(call.kind, call.place, first.draws.places[number], known))
        return cls(tuple(found))


class _Step:
    """What a step gave its losses, those that it writes out last, and the normal numbers that it drew."""

    def __init__(self, calls: list[LossCall], draws: _Draws) -> None:
        self.calls = [call for call in calls if call.kind in _OF_NUMBERS and call.node is not None] + draws.errors
        self.draws = draws

    def alike(self, place: int, call: LossCall) -> bool:
        """Whether the loss of this number was given the same prediction."""
        return place < len(self.calls) and torch.equal(self.calls[place].input, call.input)


def _watched(trial: Trial, batch: Any, exchanged: int | None) -> _Step:
    losses, draws = LossWatch(), _Draws(exchanged)
    with restored(trial):
        _move_weights(trial)
        seed_all(0)
        with losses, draws:
            trial.train_step(copied(batch), 0)
    return _Step(losses.calls, draws)


@torch.no_grad()
def _move_weights(trial: Trial) -> None:
    generator = torch.Generator().manual_seed(2)
    for model in trial.models.values():
        for weight in model.parameters():
            if weight.is_floating_point():
                weight.add_((_LITTLE * torch.randn(weight.shape, generator=generator)).to(weight))


class _Draws(TorchFunctionMode):
    """Keeps what is drawn, in order; the draw of one number is given other numbers than those drawn for it."""

    def __init__(self, exchanged: int | None) -> None:
        super().__init__()
        self.places: list[Location] = []
        self.errors: list[LossCall] = []
        self._less: dict[int, tuple[LossCall, Tensor]] = {}
        self._drawn: list[Tensor] = []
        self._exchanged = exchanged
        self._generator = torch.Generator().manual_seed(1)

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") in NORMAL and isinstance(result, Tensor):
            with suppress(Exception):  # tensors that stand for others, as within vmap, are not looked at
                self._keep(result)
        elif func.__name__ in _LESS | _SIZES and isinstance(result, Tensor):
            with suppress(Exception):
                self._compare(func.__name__, args, result)
        return result

    def _compare(self, name: str, args: tuple[Any, ...], result: Tensor) -> None:
        """A prediction less such numbers as they are, and the size of that."""
        if name in _SIZES:
            if id(args[0]) in self._less:
                self.errors.append(self._less[id(args[0])][0])
            return
        said, given = args[:2] if args[0].requires_grad else args[1::-1]
        if said.requires_grad and not given.requires_grad and said.shape == given.shape and self.of(given) is not None:
            call = LossCall("", said.detach().clone(), given.detach().clone(), place=user_location())
            self._less[id(result)] = call, result

    def _keep(self, result: Tensor) -> None:
        if len(self._drawn) == self._exchanged:
            with torch.no_grad():
                result.copy_(torch.randn(result.shape, generator=self._generator))
        self._drawn.append(result.detach().clone())
        self.places.append(user_location())

    def of(self, target: Tensor) -> int | None:
        """The number of the draw that this is."""
        if target.numel() < _FEW:
            return None
        alike = (number for number, one in enumerate(self._drawn) if one.shape == target.shape)
        return next((number for number in alike if torch.equal(self._drawn[number], target)), None)
