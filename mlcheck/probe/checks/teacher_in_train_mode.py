"""Judges whether a model that training only asks is in evaluation mode: its dropout is off, its statistics stay."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.model.teachers import Asked, Teachers
from mlcheck.probe.measure.names import listed


def check(seen: Teachers) -> Verdict:
    findings = tuple(
        Finding(
            f"`{asked.name}` is called without gradients and never changes, but {_why(asked)}",
            asked.place,
            help="call eval() on it once, and again wherever the model that holds it is put into training mode",
        )
        for asked in seen.asked
        if asked.dropouts or asked.norms
    )
    if findings:
        return Verdict(Outcome.WARN, findings[0].message, findings=findings, looked_at=len(seen.asked))
    names = listed([asked.name for asked in seen.asked])
    return Verdict(
        Outcome.PASS, f"no dropout is active in {names}, which training only asks", looked_at=len(seen.asked)
    )


def _why(asked: Asked) -> str:
    if asked.dropouts:
        return f"{listed(list(asked.dropouts))} in it is active: it is in training mode, and its outputs are noisy"
    return (
        f"{listed(list(asked.norms))} in it normalises by the batch at hand and forgets the statistics that it was "
        "trained with: it is in training mode"
    )
