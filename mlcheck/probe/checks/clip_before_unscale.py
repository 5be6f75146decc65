"""Judges whether gradients are clipped while they are multiplied by the loss scale."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.training.clipping import Clipping


def check(seen: Clipping) -> Verdict:
    if not seen.scaled:
        return Verdict(Outcome.PASS, "gradients are unscaled before they are clipped", looked_at=seen.clips)
    findings = tuple(
        Finding(
            "gradients are clipped while they are multiplied by the loss scale",
            place,
            help=f"call `scaler.unscale_({name})` after backward and before this",
        )
        for place, name in seen.scaled
    )
    return Verdict(Outcome.FAIL, findings[0].message, findings=findings, looked_at=seen.clips)
