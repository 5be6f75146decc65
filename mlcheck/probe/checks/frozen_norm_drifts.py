"""Judges whether frozen layers keep the statistics they were trained with."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.model.frozen_norms import FrozenNorms
from mlcheck.probe.measure.names import listed


def check(seen: FrozenNorms) -> Verdict:
    looked_at = len(seen.moved) + len(seen.still)
    if not seen.moved:
        return Verdict(
            Outcome.PASS, f"the running statistics of {looked_at} frozen batch norms stay", looked_at=looked_at
        )
    message = (
        f"{listed(list(seen.moved))} are frozen, and their running statistics move with every training batch: the "
        "frozen layers no longer compute in evaluation what they were pretrained to compute"
    )
    finding = Finding(
        message,
        Location(symbol=seen.moved[0]),
        help="set the frozen part to eval() after every model.train(), best in the model's own train()",
    )
    return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=looked_at)
