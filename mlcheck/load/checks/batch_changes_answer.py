"""Judges whether a query gets the same answer alone and among others."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.load.cases import Conduct


def check(conduct: Conduct) -> Verdict:
    if conduct.batch_skipped:
        return Verdict(Outcome.SKIP, reason=conduct.batch_skipped)
    looked_at = len(conduct.batch)
    differing = [case for case in conduct.batch if case.told]
    if not differing:
        told = f"{plural(looked_at, 'query')} got the same answers alone and in one batch"
        return Verdict(Outcome.PASS, told, looked_at=looked_at)
    if not conduct.repeatable:
        return Verdict(Outcome.SKIP, reason="answers are sampled, so they differ with and without a batch")
    if any(case.told for case in conduct.repeated):
        return Verdict(Outcome.INCONCLUSIVE, reason="answers differ without a batch too; see answer-not-repeatable")
    help_ = "look at padding and its mask, at batch norm in training mode, at operations over the batch dimension"
    findings = tuple(Finding(f"{case.name!r} in a batch: {case.told}", help=help_) for case in differing)
    message = f"{len(differing)} of {plural(looked_at, 'query')} get another answer in a batch than alone"
    return Verdict(Outcome.FAIL, message, findings=findings, looked_at=looked_at)
