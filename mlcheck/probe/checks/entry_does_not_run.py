"""Judges the rehearsal: data, three steps, one evaluation."""

from __future__ import annotations

import math

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.training.rehearsal import Breakage, Rehearsal, non_finite


def check(rehearsal: Rehearsal) -> Verdict:
    findings = [_broke(breakage) for breakage in rehearsal.breakages]
    if not rehearsal.batches and not findings:
        findings.append(Finding("the training loader is empty: it gave no batch", help="check data set and batch size"))
    findings += _no_numbers(rehearsal)
    numbers = {"parameters": float(rehearsal.parameters), "batches": float(rehearsal.batches)}
    if findings:
        trace = next((breakage.traceback for breakage in rehearsal.breakages), "")
        return Verdict(
            Outcome.FAIL,
            findings[0].message,
            findings=tuple(findings),
            figures=rehearsal.account.figure() if rehearsal.account else (),
            numbers=numbers,
            traceback=trace,
        )
    losses = ", ".join(f"{name} {value:.4g}" for name, value in rehearsal.metrics[-1].items())
    evaluated = ", one evaluation" if rehearsal.evaluated else ""
    read = f"{rehearsal.batches} {'batch' if rehearsal.batches == 1 else 'batches'} read"
    return Verdict(
        Outcome.PASS,
        f"{plural(rehearsal.parameters, 'parameter')}, {read}, {plural(rehearsal.steps, 'step')}{evaluated}"
        + (f" ({losses})" if losses else ""),
        numbers=numbers,
        looked_at=rehearsal.batches,
    )


def _broke(breakage: Breakage) -> Finding:
    told = f"the {breakage.part} raised {breakage.error}"
    return Finding(f"{breakage.why}: {told}" if breakage.why else told, breakage.location, help=breakage.help)


def _no_numbers(rehearsal: Rehearsal) -> list[Finding]:
    """The first step whose loss is no number; then nothing after it means anything."""
    for step, metrics in enumerate(rehearsal.metrics, 1):
        bad = non_finite(metrics)
        if bad:
            value = "NaN" if metrics[bad[0]] != metrics[bad[0]] else "infinite"
            return [Finding(f"the training step returned {bad[0]} = {value} at step {step}", rehearsal.step_place)]
    lost = [loss for loss in rehearsal.losses if not math.isfinite(loss)]
    if lost:
        value = "NaN" if math.isnan(lost[0]) else "infinite"
        return [
            Finding(f"the loss is {value} within the first {plural(rehearsal.steps, 'step')}", rehearsal.step_place)
        ]
    return []
