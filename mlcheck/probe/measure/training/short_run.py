"""The user's own loop over the real data for a while, with an evaluation before and after, and what went on in it."""

from __future__ import annotations

import math
import re
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.optim.lr_scheduler import OneCycleLR

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import Clock, length_of, repeated_batches
from mlcheck.probe.measure.measurement import Reach
from mlcheck.probe.measure.modules import Names
from mlcheck.probe.measure.place import raised_at
from mlcheck.probe.measure.simplified import learning_rate
from mlcheck.probe.measure.training.gradients import GradientWatch, named_parameters
from mlcheck.probe.measure.training.line_by_line import Account, retold
from mlcheck.probe.measure.training.nan_source import NanSource, find_source
from mlcheck.probe.measure.training.refusals import why
from mlcheck.probe.measure.training.update_watch import Update, UpdateWatch
from mlcheck.probe.measure.validation.logged import numbers_of_all
from mlcheck.probe.measure.validation.predictions import Predictions, predictions
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.traceback import error_line, user_traceback
from mlcheck.trial.trial import NotReached, Trial

STEPS = 120
SECONDS = 8.0
VALIDATION_BATCHES = 6
TRAINING_BATCHES = 2
_MARKED_NODES = 12
_ACCURACY = re.compile(r"(^|.*[_\W])(acc|accuracy|top1)$")


@dataclass(slots=True)
class ShortRun:
    """Up to 120 steps of training, epoch after epoch, schedules included.

    `losses` are what backward was called on, summed a step. `alive` counts, after each step, the graphs of this
    and earlier steps that are still kept; `keepers` are attributes of the user's that hold one. `rates` are the
    largest learning rate after each step. `before` and `after` are the metrics of each validation batch.
    `error` is what ended the run at step `steps`, with its `place`, and `why` where the call shows it. `source` is
    where the first value that is no number came from, `account` the step that broke or made it, line by line.
    `predictions` are the worst of the model by then. `on_training` are the metrics of `before` and `after` for
    batches of the training data. `reduced` are the names of those that reducers make of all these batches together.
    `is_over` says that the program itself took no step more, or that its one-cycle schedule, made for whole epochs, has
    no more of them.
    """

    reach: ClassVar[Reach] = "loss"
    order: ClassVar[int] = 100

    steps: int = 0
    is_over: bool = False
    epochs: float = 0.0
    losses: list[float] = field(default_factory=list)
    alive: list[int] = field(default_factory=list)
    keepers: tuple[str, ...] = ()
    rates: list[float] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    backwards: int = 0
    before: list[dict[str, float]] = field(default_factory=list)
    after: list[dict[str, float]] = field(default_factory=list)
    reduced: frozenset[str] = frozenset()
    on_training: tuple[list[dict[str, float]], list[dict[str, float]]] = ([], [])
    error: str = ""
    why: str = ""
    traceback: str = ""
    place: Location = field(default_factory=Location)
    backward_place: Location = field(default_factory=Location)
    source: NanSource | None = None
    account: Account | None = None
    predictions: Predictions | None = None

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        run = cls(before=evaluated(trial))
        run.reduced = frozenset(map(str, trial.end_validation())) if trial.end_validation else frozenset()
        seen = _on_training(trial) if run.before else []
        clock = Clock(min(SECONDS, seconds / 5))
        seed_all(0)
        with restored(trial):
            run._train(trial, clock)
            if not run.error and not run.bad_step:
                with suppress(NotReached):
                    run.after = evaluated(trial)
                run.on_training = (seen, _on_training(trial) if seen else [])
                with suppress(Exception, NotReached), restored(trial):  # for the report's pictures only
                    run.predictions = predictions(trial)
        if run.bad_step is not None:
            seed_all(0)
            with restored(trial):
                run.source = find_source(trial, run.bad_step)
        return run

    def is_unexplained(self) -> bool:
        return bool(self.error) or self.bad_step is not None

    def explain(self, trial: Trial) -> None:
        """Tell the step that broke, or made the first value that is no number, line by line."""
        seed_all(0)
        self.account = retold(trial, self.steps if self.bad_step is None else self.bad_step)

    @property
    def bad_step(self) -> int | None:
        """The first step whose loss or gradient is no finite number."""
        losses = (i for i, loss in enumerate(self.losses) if not math.isfinite(loss))
        gradients = (u.step for u in self.updates if not math.isfinite(u.norm))
        found = [step for step in (next(losses, None), next(gradients, None)) if step is not None]
        return min(found, default=None)

    @property
    def accuracy(self) -> float | None:
        """The model's own after the run, as a share, where the program calls a metric that."""
        return _accuracy(self.after, self.reduced)

    @property
    def accuracy_on_training(self) -> float | None:
        """The same of batches that the model is trained on."""
        return _accuracy(self.on_training[1], self.reduced)

    def _train(self, trial: Trial, clock: Clock) -> None:
        updates = UpdateWatch(named_parameters(trial.models), Names(trial.models))
        watch = GradientWatch([])
        with kept_graphs() as graphs, updates, watch:
            for batch in repeated_batches(trial):
                before, updates.step = len(watch.backwards), self.steps
                try:
                    trial.train_step(batch, self.steps)
                except NotReached:
                    if not self.steps:
                        raise
                    self.is_over = True
                    break
                except Exception as error:
                    self._broke(error, trial)
                    break
                finally:
                    self.updates = updates.updates
                roots = watch.backwards[before:]
                self.losses.append(sum(float(backward.root.double().sum()) for backward in roots))
                self.backward_place = roots[0].place if roots else self.backward_place
                self.alive.append(graphs.alive())
                self.rates.append(learning_rate(trial))
                self.steps += 1
                self.is_over = _has_cycled(trial)
                if self.is_over or self.steps >= STEPS or not clock.left() or self.bad_step is not None:
                    break
            self.backwards = len(watch.backwards)
            self.keepers = holders(trial) if len(self.alive) > 3 and self.alive[-1] > 3 else ()
        with suppress(TypeError, KeyError):
            self.epochs = self.steps / max(1, len(trial.loaders["training"]))

    def _broke(self, error: Exception, trial: Trial) -> None:
        self.error, self.why = error_line(error), why(error, trial)
        self.traceback, self.place = user_traceback(error), raised_at(error)


def _accuracy(evaluations: list[dict[str, float]], reduced: frozenset[str]) -> float | None:
    """None from reducers, which may divide what is right in a few batches by the size of the whole split."""
    for name in evaluations[0] if evaluations else ():
        if name not in reduced and _ACCURACY.match(name.lower()):
            values = [metrics[name] for metrics in evaluations if name in metrics]
            mean = sum(values) / len(values)
            return mean / 100 if max(values) > 1 else mean
    return None


def evaluated(trial: Trial) -> list[dict[str, float]]:
    """The metrics of the first validation batches, each that is one number."""
    if trial.evaluate_step is None or trial.validation_batches is None:
        return []
    with restored(trial):
        seed_all(1)
        return list(numbers_of_all(trial, islice(trial.validation_batches(), VALIDATION_BATCHES)))


def _on_training(trial: Trial) -> list[dict[str, float]]:
    """The same evaluation, of batches that the model is trained on; nothing where it does not take them."""
    found: list[dict[str, float]] = []
    with suppress(Exception, NotReached), restored(trial):
        seed_all(1)
        for metrics in numbers_of_all(trial, islice(trial.train_batches(), TRAINING_BATCHES)):
            found.append(metrics)  # noqa: PERF402 - what came before an error stays
    return found


def _has_cycled(trial: Trial) -> bool:
    """Whether a one-cycle schedule has made all of its steps: it raises at more.

    Only one that was given a number of whole epochs, which is then the run's; any other is made too short.
    """
    epoch = length_of(trial.loaders.get("training"))
    cycles = [one for one in trial.schedulers.values() if isinstance(one, OneCycleLR)]
    return any(0 < epoch < one.total_steps <= one.last_epoch and one.total_steps % epoch == 0 for one in cycles)


class _Mark:
    """Lives as long as an autograd node that carries it."""


class Graphs:
    """A mark for every graph that backward was called on, carried by its last few nodes."""

    def __init__(self) -> None:
        self._marks: list[weakref.ref[_Mark]] = []

    def mark(self, root: Tensor) -> None:
        if len(self._marks) >= 4 * STEPS:
            return
        mark, waiting, left = _Mark(), [root.grad_fn], _MARKED_NODES
        self._marks.append(weakref.ref(mark))
        while waiting and left:
            node: Any = waiting.pop(0)
            if node is None or hasattr(node, "variable") or id(self) in node.metadata:
                continue
            node.metadata[id(self)] = mark
            waiting += [parent for parent, _ in node.next_functions]
            left -= 1

    def alive(self) -> int:
        return sum(mark() is not None for mark in self._marks)


@contextmanager
def kept_graphs() -> Iterator[Graphs]:
    """While entered, counts the graphs of losses that somebody still holds."""
    graphs, original = Graphs(), torch.autograd.backward

    def backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
        for root in [tensors] if isinstance(tensors, Tensor) else tensors:
            graphs.mark(root)
        original(tensors, *args, **kwargs)

    torch.autograd.backward = backward
    try:
        yield graphs
    finally:
        torch.autograd.backward = original


def holders(trial: Trial) -> tuple[str, ...]:
    """Attributes of the user's objects that hold a tensor with a graph, by name."""
    found = []
    for owner in trial.objects:
        for name, value in vars(owner).items() if hasattr(owner, "__dict__") else ():
            items = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else [value]
            if any(isinstance(item, Tensor) and item.grad_fn is not None for item in items[-3:]):
                found.append(f"{type(owner).__name__}.{name}")
    return tuple(dict.fromkeys(found))
