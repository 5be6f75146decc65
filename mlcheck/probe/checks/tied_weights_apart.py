"""Judges whether weights that look tied are one parameter."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.model.parameters import Parameters


def check(seen: Parameters) -> Verdict:
    findings = [
        Finding(
            f"`{one}` and `{other}` are two parameters over the same memory: the optimizer moves it twice a step, with "
            "two momenta, and a saved model loads them apart",
            Location(symbol=other),
            help="tie the parameter itself (head.weight = embedding.weight), not its .data",
        )
        for one, other in seen.shared
    ]
    copies = [
        Finding(
            f"`{other}` starts as a copy of `{one}` and is a parameter of its own: they diverge at the first step",
            Location(symbol=other),
            help="tie the parameter itself (head.weight = embedding.weight, or F.linear(h, encoder.weight.T)) if they "
            "are meant to stay equal",
        )
        for one, other in seen.copies
    ]
    if findings or copies:
        found = tuple(findings + copies)
        return Verdict(
            Outcome.FAIL if findings else Outcome.WARN, found[0].message, findings=found, looked_at=len(seen.weights)
        )
    return Verdict(
        Outcome.PASS,
        f"no two of {len(seen.weights)} weights share memory or begin as copies",
        looked_at=len(seen.weights),
    )
