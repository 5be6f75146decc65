"""Judges what recurrent layers begin with in evaluation."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.model.initial_states import InitialStates


def check(seen: InitialStates) -> Verdict:
    random = [start for start in seen.starts if start.drawn and start.apart]
    if not random:
        told = f"the state that is given to {plural(len(seen.starts), 'recurrent layer')} is the same each time"
        return Verdict(Outcome.PASS, told, looked_at=len(seen.starts))
    findings = tuple(
        Finding(
            f"`{start.layer}` begins with a state drawn at random, in evaluation too: the same batch "
            "begins with another one each time",
            start.place,
            help="leave the state out, so that it begins with zeros; or learn it",
        )
        for start in random
    )
    return Verdict(Outcome.WARN, findings[0].message, findings=findings, looked_at=len(seen.starts))
