"""Lays the batch out for a person: what no program can judge is whether it looks right."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.data.augmented import Augmented
from mlcheck.probe.measure.data.boxes import Boxed
from mlcheck.probe.measure.data.gallery import Gallery


def check(seen: Gallery, augmented: Augmented | None, boxed: Boxed | None) -> Verdict:
    figures = [boxed.figure] if boxed else []
    figures += [*seen.figures, *([augmented.figure] if augmented else [])]
    return Verdict(
        Outcome.PENDING,
        "; ".join(seen.facts[:4]),
        reason="a person has to look: do inputs and labels belong together, right before the model?",
        figures=tuple(figures),
        looked_at=seen.samples,
    )
