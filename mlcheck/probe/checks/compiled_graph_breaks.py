"""Judges whether a compiled model stays in one graph, and is compiled once."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.drive import inconclusive
from mlcheck.probe.measure.precision.compiled import Compiled


def check(seen: Compiled) -> Verdict:
    if seen.error:
        raise inconclusive(f"torch.compile does not take the model: {seen.error}")
    findings = [Finding(f"the graph of `{seen.model}` breaks: {reason}", place) for reason, place in seen.breaks]
    if seen.recompiled > 1:
        message = f"`{seen.model}` is compiled {plural(seen.recompiled, 'more time')} for inputs of the same shape"
        findings.append(Finding(message, help="keep Python numbers that change from call to call out of forward"))
    numbers = {"graph breaks": float(len(seen.breaks)), "recompiled": float(seen.recompiled)}
    if findings:
        told = findings[0].message
        return Verdict(Outcome.WARN, told, findings=tuple(findings), looked_at=1, numbers=numbers)
    return Verdict(Outcome.PASS, f"`{seen.model}` is one graph, compiled once", looked_at=1, numbers=numbers)
