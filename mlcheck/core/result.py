"""A verdict with its rule's title, stage and time: the result that goes into the report."""

from __future__ import annotations

import math
from typing import Any

from mlcheck.core.check import Verdict
from mlcheck.core.dataclasses import replace
from mlcheck.core.finding import Figure, Finding
from mlcheck.core.outcome import By
from mlcheck.core.report import Result
from mlcheck.core.rule import Rule


def result_of(rule: Rule, verdict: Verdict, by: By, seconds: float = 0.0, traceback: str = "") -> Result:
    """`traceback` stands in for one that the verdict does not bring."""
    return Result(
        rule=rule.name,
        title=rule.title,
        stage=rule.stage,
        severity=rule.severity,
        by=by,
        outcome=verdict.outcome,
        summary=verdict.summary,
        reason=verdict.reason,
        findings=tuple(_finite_finding(finding) for finding in verdict.findings),
        figures=tuple(Figure(figure.kind, figure.title, _finite(figure.data)) for figure in verdict.figures),
        numbers=_finite_numbers(verdict.numbers),
        looked_at=verdict.looked_at,
        seconds=round(seconds, 3),
        traceback=verdict.traceback or traceback,
        explains=rule.explains,
    )


def _finite_finding(finding: Finding) -> Finding:
    return replace(finding, numbers=_finite_numbers(finding.numbers))


def _finite_numbers(numbers: dict[str, float]) -> dict[str, float]:
    return {name: float(number) for name, number in numbers.items() if math.isfinite(number)}


def _finite(data: Any) -> Any:
    """JSON knows no NaN: a point that is no number is a gap."""
    if isinstance(data, float) and not math.isfinite(data):
        return None
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    return data
