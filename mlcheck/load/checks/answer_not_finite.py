"""Judges whether good queries are answered with NaN or infinity."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.load.survey import Survey


def check(survey: Survey) -> Verdict:
    answered = sum(ms == ms for ms in survey.median_ms)
    if not answered:
        return Verdict(Outcome.SKIP, reason="no query was answered")
    bad = {number: place for number, place in survey.not_finite.items() if number >= 0}
    if not bad:
        return Verdict(
            Outcome.PASS, f"all numbers in the answers to {plural(answered, 'query')} are finite", looked_at=answered
        )
    findings = tuple(
        Finding(f"query {survey.names[number]!r}: {place} is NaN or infinite") for number, place in bad.items()
    )
    told = f"{len(bad)} of {plural(answered, 'query')} answered with NaN or infinity"
    return Verdict(Outcome.FAIL, told, findings=findings, looked_at=answered)
