"""Judges whether all ranks of a group call the same collectives in the same order."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.measurement import NotMeasured
from mlcheck.probe.measure.ranks.meeting import Collective, parting
from mlcheck.probe.measure.ranks.passes import passes
from mlcheck.probe.measure.ranks.run import RankRun


def check(run: RankRun) -> Verdict:
    called = max(len(rank.of(Collective)) for rank in run.ranks)
    if not called:
        raise NotMeasured("the program itself calls no collective")
    found = parting(run)
    if found is None:
        return Verdict(
            Outcome.PASS, f"the ranks call the same {plural(called, 'collective')} in the same order", looked_at=called
        )
    uneven = next((one for one in passes(run) if len(set(one.lengths)) > 1), None)
    if uneven is not None:
        raise NotMeasured("the ranks take different numbers of steps")
    message = f"the ranks diverge at collective {found.number}: {found.told}"
    finding = Finding(
        message,
        found.places[0],
        help="call it on all ranks; only printing and saving belong under `if rank == 0`",
        related=found.places[1:],
    )
    return Verdict(Outcome.FAIL, message, findings=(finding,), looked_at=called)
