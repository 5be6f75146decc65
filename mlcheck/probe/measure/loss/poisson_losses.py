"""What enters the Poisson losses of a training step: the logarithm of a rate, or the rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.loss.losses import LossCall, LossWatch
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.simplified import stilled
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

_NONE = "no Poisson loss was computed in the training step"


@dataclass(frozen=True, slots=True)
class PoissonLoss:
    """A call of `poisson_nll_loss`: whether it takes its input for a logarithm, what made it, and its least number.

    `below` is the share of counts that are less than 1.
    """

    log_input: bool
    made_by: str
    low: float
    below: float
    place: Location


@dataclass(frozen=True, slots=True)
class PoissonLosses:
    """Those that feed the backward pass of one step."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 4

    calls: tuple[PoissonLoss, ...]

    @classmethod
    def absent(cls, called: frozenset[str]) -> str:
        return "" if "poisson_nll_loss" in called else _NONE

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - one step, whatever the limit
        batch, watch = first_batches(trial, 1)[0], LossWatch()
        with restored(trial), stilled(trial), watch:
            trial.train_step(batch, 0)
        calls = [call for call in watch.counts if call.node is not None and call.input.numel()]
        if not calls:
            raise NotMeasured(_NONE)
        return cls(tuple({one.place: one for one in map(_summary, calls)}.values()))


def _summary(call: LossCall) -> PoissonLoss:
    below = float((call.target < 1).double().mean()) if call.target.numel() else 0.0
    return PoissonLoss(bool(call.options["log_input"]), call.bounded_by, float(call.input.min()), below, call.place)
