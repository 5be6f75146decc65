"""Judges how much of a tanh or sigmoid sits at its ends before training."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.activations import Activations, Units

MUCH = 0.5


def check(seen: Activations, *, share: float = MUCH) -> Verdict:
    judged = [units for units in seen.units if units.active is None and units.values]
    if not judged:
        return Verdict(Outcome.SKIP, reason="no tanh or sigmoid was seen")
    findings = tuple(_fault(units) for units in judged if units.saturated >= share)
    if findings:
        return Verdict(Outcome.WARN, findings[0].message, findings=findings, looked_at=len(judged))
    worst = max(judged, key=lambda units: units.saturated)
    return Verdict(
        Outcome.PASS,
        f"at most {100 * worst.saturated:.1f} % of the values of a tanh or sigmoid are at its ends (`{worst.name}`)",
        looked_at=len(judged),
    )


def _fault(units: Units) -> Finding:
    ends = "beyond ±0.99" if units.kind == "tanh" else "within 0.005 of 0 or 1"
    return Finding(
        f"{100 * units.saturated:.0f} % of the values of the {units.kind} `{units.name}` are {ends} before training: "
        "hardly any gradient comes through",
        units.place if units.place.path else Location(symbol=units.name.partition(" ")[0]),
        help="initialise the layer before it smaller (Xavier), or scale its input",
        numbers={"saturated": units.saturated},
    )
