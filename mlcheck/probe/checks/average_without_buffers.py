"""Judges whether the running statistics of an averaged model follow the model's."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.averages import Average, Averages
from mlcheck.probe.measure.names import listed


def check(seen: Averages) -> Verdict:
    following = [average for average in seen.averages if average.follows]
    if not following:
        names = listed([average.copy for average in seen.averages])
        return Verdict(Outcome.INCONCLUSIVE, reason=f"{names} did not change in {seen.steps} steps")
    findings = tuple(_fault(average, seen.steps) for average in following if average.stale)
    if findings:
        used = any(average.evaluated for average in following if average.stale)
        return Verdict(
            Outcome.FAIL if used else Outcome.WARN, findings[0].message, findings=findings, looked_at=len(following)
        )
    told = "; ".join(
        f"`{a.copy}` follows `{a.model}`" + (f" with all {a.buffers} running statistics" if a.buffers else "")
        for a in following
    )
    return Verdict(Outcome.PASS, told, looked_at=len(following))


def _fault(average: Average, steps: int) -> Finding:
    return Finding(
        f"`{average.copy}` averages the parameters of `{average.model}` but not its running statistics: "
        f"{listed(list(average.stale))} did not move in {steps} steps, those of the model did",
        Location(symbol=average.copy),
        help="copy the buffers at every update (AveragedModel(use_buffers=True)), or run update_bn before evaluating",
    )
