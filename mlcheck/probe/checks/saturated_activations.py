"""Judges how much of a tanh or sigmoid sits at its ends before training, and of attention on one key alone."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.model.activations import Activations, Units
from mlcheck.probe.measure.model.wiring import Attention, Wiring

MUCH = 0.5
NEARLY_ALL = 0.9
FEW_ROWS = 50


def check(seen: Activations, wiring: Wiring | None, *, share: float = MUCH) -> Verdict:
    judged = [units for units in seen.units if units.active is None and units.values]
    attentions = [one for one in wiring.attentions if one.rows >= FEW_ROWS] if wiring else []
    if not judged and not attentions:
        return Verdict(Outcome.SKIP, reason="no tanh or sigmoid was seen")
    findings = (
        *(_fault(units) for units in judged if units.saturated >= share),
        *(_sharp(one) for one in attentions if one.single >= NEARLY_ALL),
    )
    if findings:
        return Verdict(Outcome.WARN, findings[0].message, findings=findings, looked_at=len(judged) + len(attentions))
    if not judged:
        told = (
            f"at most {100 * max(one.single for one in attentions):.1f} % of the rows of an attention see one key alone"
        )
        return Verdict(Outcome.PASS, told, looked_at=len(attentions))
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
        "hardly any gradient passes through them",
        units.place if units.place.path else Location(symbol=units.name.partition(" ")[0]),
        help="initialise the layer before it smaller (Xavier), or scale its input",
        numbers={"saturated": units.saturated},
    )


def _sharp(one: Attention) -> Finding:
    return Finding(
        f"{100 * one.single:.0f} % of the rows of the attention at {one.place} give one of several keys more "
        f"than 0.995 of their weight before training: the scores' standard deviation is {one.spread:.3g}, and hardly "
        "any gradient passes through the softmax",
        one.place,
        help="divide the scores by the square root of the width, or initialise queries and keys smaller",
        numbers={"single": one.single, "spread": one.spread},
    )
