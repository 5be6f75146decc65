"""Judges weights that are frozen and look as if they had never been trained."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.model.parameters import Parameters


def check(seen: Parameters) -> Verdict:
    frozen = [w for w in seen.weights if not w.trained and w.ran and not w.changed]
    if not frozen:
        return Verdict(Outcome.SKIP, reason="no weight in use is frozen")
    fresh = [w for w in frozen if w.fresh]
    if not fresh:
        return Verdict(
            Outcome.PASS, f"{plural(len(frozen), 'frozen weight')}, and none looks freshly drawn", looked_at=len(frozen)
        )
    findings = tuple(
        Finding(
            f"`{w.name}` is frozen, and its values are those of a fresh random draw from {w.fresh}: it was never "
            "trained and never will be",
            Location(symbol=w.name.removesuffix(".weight")),
            help="load its weights before freezing it, or train it (nn.Embedding.from_pretrained freezes by default)",
        )
        for w in fresh
    )
    return Verdict(Outcome.WARN, findings[0].message, findings=findings, looked_at=len(frozen))
