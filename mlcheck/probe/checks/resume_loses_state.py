"""Judges whether a run resumed from its checkpoint goes on as if it had never stopped."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.training.resumed import Lost, Resumed


def check(seen: Resumed) -> Verdict:
    held = f"{len(seen.saved)} part{'s' * (len(seen.saved) != 1)} with a state_dict"
    if not seen.differing:
        summary = (
            f"resumed after {plural(seen.steps, 'step')} from {held}, the run goes on bit for bit as if "
            "it had never stopped"
        )
        return Verdict(Outcome.PASS, summary, looked_at=seen.steps)
    told = (
        f"resumed after {plural(seen.steps, 'step')}, the run differs from one that never stopped: {seen.differing[0]}"
    )
    if not seen.causes:
        reason = f"{told}; no single piece of state explains it"
        return Verdict(Outcome.INCONCLUSIVE, summary=told, reason=reason, looked_at=seen.steps)
    if seen.forgotten_after:
        names = ", ".join(f"`{lost.name}`" for lost in seen.causes)
        told = f"{told}; only {names} is not saved, and the steps that follow make up for it: {seen.forgotten_after}"
        return Verdict(Outcome.PASS, f"{told} steps later it has faded", looked_at=seen.steps)
    findings = tuple(_finding(lost, seen) for lost in seen.causes)
    outcome = Outcome.WARN if seen.in_reports_only else Outcome.FAIL
    return Verdict(outcome, told, findings=findings, looked_at=seen.steps)


def _finding(lost: Lost, seen: Resumed) -> Finding:
    now = lost.change.replace(" became ", " is ")
    return Finding(
        f"the checkpoint lacks state of `{lost.name}`: after a restart {now}, and the run differs until it is put back",
        seen.place,
        help="save it with the checkpoint: a buffer of the model, or a callback's state_dict() and load_state_dict()",
    )
