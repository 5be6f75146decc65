"""Judges what a trial does past its context: steps, backward passes, schedulers, metrics that change their names."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.training.contract import Contract


def check(seen: Contract) -> Verdict:
    wrong = [
        Finding(
            f"an optimizer ({name}) that the context has not wrapped takes steps: no checkpoint holds its state",
            place,
            help="`self.optimizer = self.context.wrap_optimizer(...)`, and `self.context.step_optimizer(...)`",
        )
        for name, place in seen.unwrapped.items()
    ]
    if seen.metrics:
        wrong.append(Finding(seen.metrics, help="return every metric from every batch"))
    doubtful = [
        Finding(
            f"`{name}` is stepped past the context: aggregation_frequency and mixed precision do not reach it",
            place,
            help=f"`self.context.step_optimizer(self.{name})`",
        )
        for name, place in seen.by_hand.items()
    ]
    doubtful += [
        Finding(
            "backward is called past the context: mixed precision and aggregation do not reach this loss",
            place,
            help="`self.context.backward(loss)`",
        )
        for place in seen.backwards
    ]
    if wrong or doubtful:
        outcome = Outcome.FAIL if wrong else Outcome.WARN
        findings = (*wrong, *doubtful)
        return Verdict(outcome, findings[0].message, findings=findings, looked_at=seen.steps)
    return Verdict(
        Outcome.PASS,
        f"every step and backward pass of {plural(seen.steps, 'batch')} went through the context; "
        f"{plural(seen.validated, 'validation batch')} with the same metrics",
        looked_at=seen.steps,
    )
