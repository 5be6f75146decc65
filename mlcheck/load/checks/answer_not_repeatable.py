"""Judges whether a query asked twice gets the same answer."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.load.cases import Conduct


def check(conduct: Conduct) -> Verdict:
    looked_at = len(conduct.repeated)
    differing = [case for case in conduct.repeated if case.told]
    if not conduct.repeatable:
        return Verdict(Outcome.SKIP, reason="the SLO file says that answers are sampled (`repeatable = false`)")
    if not differing:
        told = f"{plural(looked_at, 'query')}, each asked twice in a row, got the same answers"
        return Verdict(Outcome.PASS, told, looked_at=looked_at)
    cause = f"; {conduct.training[0]} runs in training mode" if conduct.training else ""
    message = f"{len(differing)} of {plural(looked_at, 'query')} asked twice did not get the same answer twice{cause}"
    help_ = (
        "call model.eval() after loading"
        if conduct.training
        else "if it is meant: `repeatable = false`, or `ignore` for single fields, in [cases]"
    )
    findings = (
        Finding(message, help=help_),
        *(Finding(f"query {case.name!r}, asked twice: {case.told}") for case in differing),
    )
    return Verdict(Outcome.FAIL, message, findings=findings, looked_at=looked_at)
