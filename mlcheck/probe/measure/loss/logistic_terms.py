"""Binary cross-entropy that a program writes itself: softplus or logsigmoid of a score, added up to the loss."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from mlcheck.core.finding import Location
from mlcheck.probe.measure.autograd_graph import SQUASHING, last_operation, summed_nodes
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.place import user_location
from mlcheck.probe.measure.training.gradients import GradientWatch
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

LOGISTIC = {F.softplus: "softplus", F.logsigmoid: "logsigmoid"}


@dataclass(frozen=True, slots=True)
class LogisticTerm:
    """A function of a score that applies the sigmoid and the logarithm in one, and what made the score."""

    name: str
    made_by: str
    place: Location


@dataclass(frozen=True, slots=True)
class LogisticTerms:
    """Those of one training step whose values its losses are sums of."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 11

    terms: tuple[LogisticTerm, ...]

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - one step, whatever the limit
        batch, watch = first_batches(trial, 1)[0], _LogisticWatch()
        with restored(trial), GradientWatch([], watch.at_backward), watch:
            trial.train_step(batch, 0)
        if not watch.added:
            raise NotMeasured("no softplus or logsigmoid was added up to a loss")
        return cls(tuple(dict.fromkeys(watch.added)))


class _LogisticWatch(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.added: list[LogisticTerm] = []
        self._seen: list[tuple[Any, LogisticTerm]] = []

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in LOGISTIC and isinstance(result, Tensor) and result.grad_fn is not None:
            score = args[0] if args else (kwargs or {})["input"]
            term = LogisticTerm(LOGISTIC[func], last_operation(score, SQUASHING, "Neg"), user_location())
            self._seen.append((result.grad_fn, term))
        return result

    def at_backward(self, root: Tensor) -> None:
        """Of what was computed, that which the loss is a sum of: any other softplus is an activation."""
        if self._seen and root.grad_fn is not None:
            within = summed_nodes(root)
            ends = {parent for node in within for parent, _ in node.next_functions} | {root.grad_fn}
            self.added += [term for node, term in self._seen if node in ends]
