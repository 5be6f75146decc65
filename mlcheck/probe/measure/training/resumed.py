"""A run that was interrupted and resumed from its checkpoint, beside the same run without interruption.

Both go on from the same step with the same batches and the same random numbers, so they must agree bit for bit.
What is not in the checkpoint is then put back piece by piece: the piece that makes them agree is what it lacks.
(PyTorch's notes on saving and loading a general checkpoint say what belongs in one.)
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import Clock, first_batches, inconclusive
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.tree import copied
from mlcheck.trial.cells import Cell
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import State, restore, snapshot
from mlcheck.trial.tensors import same_bits
from mlcheck.trial.trial import Trial

_BEFORE = 3
_AFTER = 2
_SEED = 7
_MOST_PIECES = 40
_OF_STEP = " of step "


@dataclass(frozen=True, slots=True)
class Lost:
    """A piece of state outside the checkpoint. `change` says what became of it between start and interruption."""

    name: str
    change: str


@dataclass(frozen=True, slots=True)
class Resumed:
    """`differing` are metrics and parameters that differ, with both values where they are numbers.

    `causes` are the pieces without which the runs differ and with which they agree; `steps` is how many came before.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 15

    saved: tuple[str, ...]
    differing: tuple[str, ...]
    causes: tuple[Lost, ...]
    steps: int
    place: Location

    @property
    def in_reports_only(self) -> bool:
        """Whether weights and evaluation agree, and nothing but what training steps report differs."""
        return all(_OF_STEP in name for name in self.differing)

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        if trial.saved is None:
            raise NotMeasured("the program writes its own checkpoints, which mlcheck does not know")
        run = _Run(trial, Clock(seconds / 2))
        differing = _differences(run.expected, run.resumed())
        causes = run.missing() if differing else ()
        return cls(tuple(trial.saved), tuple(differing), causes, _BEFORE, Location(*trial.entry))


class _Run:
    """The steps before the interruption, the checkpoint, and the uninterrupted rest to compare with."""

    def __init__(self, trial: Trial, clock: Clock) -> None:
        self._trial, self._clock = trial, clock
        self._batches = [copied(batch) for batch in first_batches(trial, _BEFORE + _AFTER)]
        self._start = snapshot(trial)
        seed_all(_SEED)
        for index, batch in enumerate(self._batches[:_BEFORE]):
            trial.train_step(copied(batch), index)
        self._middle = snapshot(trial)
        self._gradients = [
            (weight, None if weight.grad is None else weight.grad.detach().clone())
            for model in trial.models.values()
            for weight in model.parameters()
        ]
        self._checkpoint = {name: deepcopy(part.state_dict()) for name, part in (trial.saved or {}).items()}
        self.expected = self._go_on()
        restore(trial, self._middle)
        if _differences(self.expected, self._go_on()):
            raise inconclusive("two runs from the same state differ, so a resumed one cannot be compared")

    def resumed(self, *pieces: Cell) -> Mapping[str, Any]:
        """What the run comes to after a fresh start, the checkpoint, and these pieces put back by hand."""
        self._load()
        for piece in pieces:
            piece.restore()
        return self._go_on()

    def _load(self) -> None:
        trial = self._trial
        restore(trial, self._start)
        for name, part in (trial.saved or {}).items():
            part.load_state_dict(deepcopy(self._checkpoint[name]))
        for weight, gradient in self._gradients:  # of an accumulation, in the midst of which nobody need save
            weight.grad = None if gradient is None else gradient.clone()
        for model in trial.models.values():  # a framework that starts again calls this before the first step
            model.train(model.training)
        if trial.progress is not None:
            trial.progress.restore(self._middle.progress)

    def _go_on(self) -> Mapping[str, Any]:
        """Metrics and parameters after the rest of the batches and one evaluation."""
        trial = self._trial
        seed_all(_SEED + 1)
        found: dict[str, Any] = {}
        for index, batch in enumerate(self._batches[_BEFORE:], _BEFORE):
            for name, value in trial.train_step(copied(batch), index).items():
                found[f"{name}{_OF_STEP}{index + 1}"] = _plain(value)
        for name, value in self._evaluated().items():
            found[f"{name} of the evaluation"] = _plain(value)
        for model, module in trial.models.items():
            for name, tensor in module.state_dict().items():
                found[f"{model}.{name}"] = _plain(tensor)
        return found

    def _evaluated(self) -> Mapping[str, Any]:
        trial = self._trial
        if trial.evaluate_step is None or trial.validation_batches is None:
            return {}
        batch = next(iter(trial.validation_batches()), None)
        return {} if batch is None else trial.evaluate_step(batch)

    def missing(self) -> tuple[Lost, ...]:
        """The pieces that make the runs agree: one alone if one suffices, else as few as removing one by one leaves."""
        self._load()
        changed = [(cell, cell.change()) for cell in self._pieces(self._middle)]
        pieces = [(cell, change) for cell, change in changed if change][:_MOST_PIECES]
        for cell, change in pieces:
            if self._clock.left() and not _differences(self.expected, self.resumed(cell)):
                return (Lost(cell.name, change),)
        needed = pieces
        if _differences(self.expected, self.resumed(*(cell for cell, _ in needed))):
            return ()
        for piece in list(needed):
            rest = [other for other in needed if other is not piece]
            if self._clock.left() and not _differences(self.expected, self.resumed(*(cell for cell, _ in rest))):
                needed = rest
        return tuple(Lost(cell.name, change) for cell, change in needed)

    def _pieces(self, state: State) -> list[Cell]:
        """What can be put back by itself: not what hangs on an optimizer or scheduler, whose state was loaded."""
        loaded = (*self._trial.optimizers, *self._trial.schedulers)
        return [cell for cell in state.cells if cell.name.split(".")[0] not in loaded]


def _differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return [
        f"{name} {_told(one[name])} instead of {_told(other.get(name))}"[:200] if _is_number(one[name]) else name
        for name in one
        if not _same(one[name], other.get(name))
    ]


def _plain(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else deepcopy(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) or getattr(value, "size", None) == 1 or _is_scalar(value)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() == 1


def _told(value: Any) -> str:
    try:
        return f"{float(value):.6g}"
    except (TypeError, ValueError):
        return str(value)


def _same(one: Any, other: Any) -> bool:
    """Bitwise, with NaN equal to NaN; lists and mappings item by item."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    try:
        mine, theirs = torch.as_tensor(one), torch.as_tensor(other)
    except (TypeError, ValueError, RuntimeError):
        if hasattr(one, "tolist") and hasattr(other, "tolist"):
            return _same(one.tolist(), other.tolist())
        return bool(one == other)
    return same_bits(mine, theirs)
