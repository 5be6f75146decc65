"""What a check may ask for: a type that measures itself on a trial, once, and says when it cannot."""

from __future__ import annotations

from typing import ClassVar, Literal, Protocol, Self, runtime_checkable

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

Reach = Literal["nothing", "data", "step", "loss"]


class NotMeasured(Exception):
    """There is nothing to judge: SKIP where the question does not arise, INCONCLUSIVE where it stays open.

    `traceback` is the user's own, where an error of theirs is the reason.
    """

    def __init__(self, reason: str, outcome: Outcome = Outcome.SKIP, traceback: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.outcome = outcome
        self.traceback = traceback


class Measurement(Protocol):
    """Plain numbers about a trial. `reach` says how far the user's program must work for it:

    `nothing` needs neither, `data` batches, `step` a training step as well, `loss` one whose loss is the user's own.
    `order` is what it costs in training steps, as seen on small models: what tells most for its cost is measured first.
    """

    reach: ClassVar[Reach]
    order: ClassVar[int]

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        """Measure in about `seconds` at most. Raises NotMeasured; the engine restores the trial's state."""
        ...


@runtime_checkable
class Particular(Protocol):
    """A measurement that is not for every program."""

    @classmethod
    def unfit(cls, trial: Trial) -> str:
        """Why it is not for this one, told without running anything; empty where it is."""
        ...


@runtime_checkable
class Seldom(Protocol):
    """A measurement of functions that few programs call."""

    @classmethod
    def absent(cls, called: frozenset[str]) -> str:
        """Why there is nothing to measure where a step calls these of torch; empty where there may be."""
        ...


@runtime_checkable
class Unexplained(Protocol):
    """A measurement that may want to run the program once more from its start, to see where something went wrong."""

    def is_unexplained(self) -> bool: ...

    def explain(self, trial: Trial) -> None:
        """Look again; the engine restores the trial before and after."""
        ...
