"""The first things a night's run would do, and whether the program survives them."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar, Self

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import Clock
from mlcheck.probe.measure.measurement import Reach
from mlcheck.probe.measure.place import raised_at
from mlcheck.probe.measure.training.gradients import GradientWatch
from mlcheck.probe.measure.training.line_by_line import Account, retold
from mlcheck.probe.measure.training.refusals import remedy, why
from mlcheck.probe.measure.tree import leaves
from mlcheck.trial.traceback import error_line, user_traceback
from mlcheck.trial.trial import NotReached, RejectedConfig, Trial

STEPS = 3
_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Breakage:
    """What ended a part of the rehearsal. `error` is one line, `traceback` the user's own, `help` what to do.

    `why` says what about the model leads to it, where that was seen.
    """

    part: str
    error: str
    traceback: str
    location: Location
    help: str = ""
    why: str = ""


@dataclass(slots=True)
class Rehearsal:
    """Batches read, steps taken, an evaluation made, and what broke. `losses` are the values backward was called on.

    `account` tells the step that raised, run once more, line by line. `step_seconds` is what the quickest took,
    `batch_seconds` what reading a batch takes.
    """

    reach: ClassVar[Reach] = "data"
    order: ClassVar[int] = 13

    batches: int = 0
    steps: int = 0
    evaluated: bool = False
    parameters: int = 0
    step_place: Location = field(default_factory=Location)
    metrics: list[dict[str, float]] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    evaluation: dict[str, float] = field(default_factory=dict)
    breakages: list[Breakage] = field(default_factory=list)
    account: Account | None = None
    step_seconds: float = 0.0
    batch_seconds: float = 0.0

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        found = cls(parameters=sum(p.numel() for model in trial.models.values() for p in model.parameters()))
        watch = GradientWatch([])
        first = found._read(trial, Clock(min(_SECONDS, seconds / 4)))
        if first:
            with watch:
                found._step(trial, first)
            found._see_losses(watch)
            found._evaluate(trial)
        return found

    @property
    def can_read(self) -> bool:
        return self.batches > 0 and not any(broken.part.startswith("training data") for broken in self.breakages)

    @property
    def can_step(self) -> bool:
        return self.steps == STEPS

    def _read(self, trial: Trial, clock: Clock) -> list[Any]:
        """The first batches, kept; then on through the data for a while, for the sample that breaks at item 17."""
        kept: list[Any] = []
        began = time.monotonic()
        try:
            for batch in trial.train_batches():
                self.batches += 1
                self.batch_seconds = (time.monotonic() - began) / self.batches
                if len(kept) < STEPS:
                    kept.append(batch)
                if not clock.left():
                    break
        except Exception as error:
            self._broke(f"training data at batch {self.batches}", error, trial)
        return kept

    def _step(self, trial: Trial, batches: list[Any]) -> None:
        try:
            for index in range(STEPS):
                began = time.monotonic()
                metrics = trial.train_step(batches[index % len(batches)], index)
                took = time.monotonic() - began
                self.step_seconds = min(self.step_seconds or took, took)  # the first one warms up
                self.metrics.append(_numbers(metrics))
                self.steps += 1
        except (NotReached, RejectedConfig):
            raise
        except Exception as error:
            self._broke("training step", error, trial, why(error, trial))

    def _see_losses(self, watch: GradientWatch) -> None:
        """The value of every loss that backward was called on, and where."""
        if watch.backwards:
            self.step_place = watch.backwards[0].place
        self.losses = [float(backward.root.double().sum()) for backward in watch.backwards]

    def is_unexplained(self) -> bool:
        return any(broken.part == "training step" for broken in self.breakages)

    def explain(self, trial: Trial) -> None:
        self.account = retold(trial, self.steps)

    def _evaluate(self, trial: Trial) -> None:
        if trial.evaluate_step is None or trial.validation_batches is None:
            return
        try:
            for batch in islice(trial.validation_batches(), 1):
                self.evaluation = _numbers(trial.evaluate_step(batch))
                self.evaluated = True
        except NotReached:
            return
        except RejectedConfig:
            raise
        except Exception as error:
            self._broke("evaluation", error, trial, why(error, trial))

    def _broke(self, part: str, error: Exception, trial: Trial, reason: str = "") -> None:
        told, trace, place = error_line(error), user_traceback(error), raised_at(error)
        self.breakages.append(Breakage(part, told, trace, place, remedy(error, trial), reason))


def _numbers(metrics: Any) -> dict[str, float]:
    """The metrics that are single numbers, by name."""
    found: dict[str, float] = {}
    for name, tensor in leaves(metrics):
        if tensor.numel() == 1 and not tensor.is_complex():
            found[name or "loss"] = float(tensor.detach())
    if isinstance(metrics, dict):
        found |= {
            str(k): float(v) for k, v in metrics.items() if isinstance(v, (int, float)) and not isinstance(v, bool)
        }
    return found


def non_finite(metrics: dict[str, float]) -> list[str]:
    return [name for name, value in metrics.items() if not math.isfinite(value)]
