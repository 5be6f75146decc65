"""Judges the order in which the loop scales, unscales, clips, steps and updates."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.precision.scaler_calls import ScalerCalls, disorders


def check(calls: ScalerCalls) -> Verdict:
    found = disorders(calls)
    if not found:
        told = f"{plural(calls.updates, 'update')} scaled the loss, stepped and updated in order"
        return Verdict(Outcome.PASS, told, looked_at=calls.updates)
    findings = tuple(Finding(one.told, one.place, help=one.help) for one in found)
    return Verdict(Outcome.FAIL, findings[0].message, findings=findings, looked_at=calls.updates)
