"""Lays the batch out for a person: what no program can judge is whether it looks right."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.gallery import Gallery


def check(seen: Gallery) -> Verdict:
    return Verdict(
        Outcome.PENDING,
        "; ".join(seen.facts[:4]),
        reason="a person has to look: do inputs and labels belong together, right before the model?",
        figures=seen.figures,
        looked_at=seen.samples,
    )
