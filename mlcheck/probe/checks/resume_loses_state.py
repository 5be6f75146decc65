"""Judges whether a run resumed from its checkpoint goes on as if it had never stopped."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.names import listed
from mlcheck.probe.measure.training.own_checkpoint import OwnCheckpoint
from mlcheck.probe.measure.training.resumed import Lost, Resumed


def check(seen: Resumed) -> Verdict:
    if seen.own:
        return _of_own(seen.own)
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


def _of_own(seen: OwnCheckpoint) -> Verdict:
    looked_at = len(seen.lost) + len(seen.going_on)
    if not seen.lost:
        told = f"resumed from `{seen.file}`, {listed(list(seen.going_on))} goes on where it was interrupted"
        return Verdict(Outcome.PASS, told, looked_at=looked_at)
    findings = tuple(_forgotten(name, memory, seen) for name, memory in seen.lost.items())
    return Verdict(Outcome.FAIL, findings[0].message, findings=findings, looked_at=looked_at)


def _forgotten(name: str, memory: tuple[str, ...], seen: OwnCheckpoint) -> Finding:
    begins = f"after a restart {listed(list(memory))} of `{name}` begin{'s' * (len(memory) == 1)} at 0"
    if seen.holds_state:
        told = f"the program goes on from `{seen.file}` without the state of an optimizer that is in it: {begins}"
        return Finding(told, seen.place, help=f'load it here, too: `{name}.load_state_dict(checkpoint["..."])`')
    told = f"`{seen.file}`, from which the program goes on, holds no optimizer's state: {begins}"
    return Finding(told, seen.place, help=f"save `{name}.state_dict()` with the model's, and load it here")


def _finding(lost: Lost, seen: Resumed) -> Finding:
    now = lost.change.replace(" became ", " is ")
    return Finding(
        f"the checkpoint lacks state of `{lost.name}`: after a restart {now}, and the run differs until it is put back",
        seen.place,
        help="save it with the checkpoint: a buffer of the model, or a callback's state_dict() and load_state_dict()",
    )
