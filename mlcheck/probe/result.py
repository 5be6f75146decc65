"""Results of probes, and how they travel from the process that made them."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from mlcheck.core import result
from mlcheck.core.check import Verdict
from mlcheck.core.finding import Location
from mlcheck.core.outcome import By
from mlcheck.core.report import Report, Result, report_from_dict
from mlcheck.core.rule import Rule


def result_of(rule: Rule, verdict: Verdict, seconds: float = 0.0, traceback: str = "") -> Result:
    return result.result_of(rule, verdict, By.PROBE, seconds, traceback)


def to_message(one: Result) -> dict[str, Any]:
    return Report("probe", "", (one,)).to_dict()


def from_message(data: dict[str, Any]) -> Result:
    return report_from_dict(data).results[0]


def relocated(result: Result, folder: str) -> Result:
    """Places relative to where mlcheck was started, not to where the program ran."""
    if os.path.normpath(folder) == os.curdir:
        return result

    def move(place: Location) -> Location:
        if not place.path or os.path.isabs(place.path):
            return place
        return replace(place, path=os.path.normpath(os.path.join(folder, place.path)))

    findings = tuple(
        replace(finding, location=move(finding.location), related=tuple(move(place) for place in finding.related))
        for finding in result.findings
    )
    return replace(result, findings=findings)
