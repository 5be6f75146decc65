"""Judges whether every rank comes to the end of the run."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.names import listed
from mlcheck.probe.measure.ranks.meeting import Death, at, deaths, parting, waiting
from mlcheck.probe.measure.ranks.run import RankRun

_UNUSED = "remove them, use them in every step, or wrap with find_unused_parameters=True"


def check(run: RankRun) -> Verdict:
    world, updates = len(run.ranks), run.updates
    died, waits = deaths(run), waiting(run)
    if not died and not waits:
        return Verdict(Outcome.PASS, f"{world} ranks came through {plural(updates, 'step')} together", looked_at=world)
    if died:
        findings = tuple(map(_died, died))
        return Verdict(
            Outcome.FAIL, findings[0].message, findings=findings, looked_at=world, traceback=died[0].traceback
        )
    told = [f"rank {rank.rank} {doing}" for rank, doing, _ in waits]
    told += [f"rank {rank.rank} has ended" for rank in run.ranks if rank.ended]
    apart = parting(run)
    if not apart and (slow := [rank.rank for rank, _, _ in waits if rank.computing]):
        reason = f"rank {slow[0]} was still computing when the time was up ({', '.join(told)}); raise --time-limit"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, looked_at=world)
    why = f"; their collective calls diverge at number {apart.number}: {apart.told}" if apart else ""
    message = f"the ranks wait for one another for ever: {', '.join(told)}{why}"
    places = tuple(place for _, _, place in waits)
    finding = Finding(
        message, places[0], help="let every rank call every collective, and take as many steps", related=places[1:]
    )
    trace = "\n\n".join(f"rank {rank.rank}\n{_stack(rank.failure, rank.stack)}" for rank, _, _ in waits)
    return Verdict(Outcome.FAIL, message, findings=(finding,), looked_at=world, traceback=trace)


def _died(death: Death) -> Finding:
    if death.unused:
        told = (
            f"{plural(len(death.unused), 'weight')} {'gets' if len(death.unused) == 1 else 'get'} no "
            "gradient, which DistributedDataParallel waits for"
        )
        return Finding(f"rank {death.rank} died: {told} ({listed(list(death.unused))})", death.place, help=_UNUSED)
    return Finding(f"rank {death.rank} died at {at(death.place)}: {death.error}", death.place)


def _stack(failure: object, stack: str) -> str:
    return getattr(failure, "traceback", "") or stack
