"""A run that was interrupted and resumed from its checkpoint, beside the same run without interruption.

Both go on from the same step with the same batches and the same random numbers, and with deterministic algorithms
where a device has others, so they must agree bit for bit.
What is not in the checkpoint is then put back piece by piece: the piece that makes them agree is what it lacks.
What a few steps bring back by themselves, such as a recurrent network's state that goes from batch to batch, is told
apart from what never comes back, such as a counter.
(PyTorch's notes on saving and loading a general checkpoint say what belongs in one.)
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Set
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import Clock, first_batches, inconclusive
from mlcheck.probe.measure.measurement import Reach
from mlcheck.probe.measure.training.agreement import differences, distance, plain
from mlcheck.probe.measure.training.own_checkpoint import OwnCheckpoint
from mlcheck.probe.measure.tree import copied
from mlcheck.trial.cells import Cell
from mlcheck.trial.generators import seed_all
from mlcheck.trial.modes import deterministic
from mlcheck.trial.sandbox import State, cells_of, restore, snapshot
from mlcheck.trial.trial import Trial

_BEFORE = 3
_AFTER = 2
_SEED = 7
_MOST_PIECES = 40
_FORGETTING = 5
_FORGOTTEN = 0.05
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
    `forgotten_after` is how many steps bring the causes back by themselves; 0 where they do not, or an evaluation
    reads them. `own` is what is known instead of a program that writes its checkpoints itself.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 15

    saved: tuple[str, ...]
    differing: tuple[str, ...]
    causes: tuple[Lost, ...]
    steps: int
    place: Location
    forgotten_after: int = 0
    own: OwnCheckpoint | None = None

    @property
    def in_reports_only(self) -> bool:
        """Whether weights and evaluation agree, and nothing but what training steps report differs."""
        return all(_OF_STEP in name for name in self.differing)

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        if trial.saved is None:
            own = OwnCheckpoint.of(trial)
            return cls((own.file,), (), (), 0, own.place, own=own)
        with warnings.catch_warnings(), deterministic():
            warnings.simplefilter("ignore")
            run = _Run(trial, Clock(seconds / 2))
            differing = differences(run.expected, run.resumed())
            causes = run.missing() if differing else ()
            forgotten = _FORGETTING * bool(causes and run.forgets({lost.name for lost in causes}))
        return cls(tuple(trial.saved), tuple(differing), causes, _BEFORE, Location(*trial.entry), forgotten)


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
        if differences(self.expected, self._go_on()):
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
                found[f"{name}{_OF_STEP}{index + 1}"] = plain(value)
        for name, value in self._evaluated().items():
            found[f"{name} of the evaluation"] = plain(value)
        found.update({name: plain(tensor) for name, tensor in self._weights()})
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
            if self._clock.left() and not differences(self.expected, self.resumed(cell)):
                return (Lost(cell.name, change),)
        needed = pieces
        if differences(self.expected, self.resumed(*(cell for cell, _ in needed))):
            return ()
        for piece in list(needed):
            rest = [other for other in needed if other is not piece]
            if self._clock.left() and not differences(self.expected, self.resumed(*(cell for cell, _ in rest))):
                needed = rest
        return tuple(Lost(cell.name, change) for cell, change in needed)

    def forgets(self, names: Set[str]) -> bool:
        """Whether a few steps bring these pieces back by themselves, and no evaluation reads them.

        From step to step everything but the pieces is that of the uninterrupted run. What a step then still does
        to the weights because of them is compared with what it does right after the loss.
        """
        lost = [cell for cell in self._start.cells if cell.name in names]
        if differences(self._unstepped(), self._unstepped(lost)):
            return False
        whole, healed, alike = self._middle, lost, False
        for index in range(_BEFORE, _BEFORE + _FORGETTING):
            if not self._clock.left():
                return False
            self._step(index, whole, healed)
            healed, told = [cell for cell in cells_of(self._trial) if cell.name in names], _told(lost)
            self._step(index, whole)
            whole, alike = snapshot(self._trial), _told(lost) == told
        if not alike:  # a number that is still another one, such as a counter that acts every so many steps
            return False
        first, last = self._changes(self._middle, lost), self._changes(whole, healed)
        return any(first.values()) and all(last[name] <= _FORGOTTEN * change for name, change in first.items())

    def _changes(self, whole: State, pieces: Iterable[Cell]) -> dict[str, float]:
        """How far the weights after a step change where these pieces are another run's."""
        self._step(_BEFORE, whole)
        expected = {name: plain(tensor) for name, tensor in self._weights()}
        self._step(_BEFORE, whole, pieces)
        return {name: distance(expected[name], tensor) for name, tensor in self._weights()}

    def _step(self, index: int, whole: State, pieces: Iterable[Cell] = ()) -> None:
        self._exchange(whole, pieces)
        self._trial.train_step(copied(self._batches[index % len(self._batches)]), index)

    def _unstepped(self, pieces: Iterable[Cell] = ()) -> Mapping[str, Any]:
        """What an evaluation right after the interruption says."""
        self._exchange(self._middle, pieces)
        return {name: plain(value) for name, value in self._evaluated().items()}

    def _exchange(self, whole: State, pieces: Iterable[Cell]) -> None:
        """The whole state with these pieces of another, and random numbers that are always the same."""
        restore(self._trial, whole)
        for piece in pieces:
            piece.restore()
        seed_all(_SEED + 1)

    def _weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        for model, module in self._trial.models.items():
            for name, tensor in module.state_dict().items():
                yield f"{model}.{name}", tensor

    def _pieces(self, state: State) -> list[Cell]:
        """What can be put back by itself: not what hangs on an optimizer or scheduler, whose state was loaded."""
        loaded = (*self._trial.optimizers, *self._trial.schedulers)
        return [cell for cell in state.cells if cell.name.split(".")[0] not in loaded]


def _told(pieces: Iterable[Cell]) -> list[str]:
    return [piece.change() for piece in pieces]
