"""Judges how many units behind a ReLU are never active."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.model.activations import Activations, Units

MANY = 0.7
FEW_ROWS = 300


def check(seen: Activations, *, share: float = MANY) -> Verdict:
    judged = [units for units in seen.units if units.active is not None and units.rows >= FEW_ROWS]
    if not judged:
        return Verdict(Outcome.SKIP, reason=f"no ReLU was seen on {FEW_ROWS} rows or more")
    shares = {units.name: _dead(units) for units in judged}
    bound = 100 * 3 / min(units.rows for units in judged)
    figure = Figure(
        "bars",
        "units that are never active, by layer",
        {"labels": list(shares), "values": [100 * one for one in shares.values()], "unit": "%"},
    )
    findings = tuple(_fault(units) for units in judged if _dead(units) >= share)
    if findings:
        return Verdict(Outcome.WARN, findings[0].message, findings=findings, figures=(figure,), looked_at=len(judged))
    worst = max(shares, key=lambda name: shares[name])
    return Verdict(
        Outcome.PASS,
        f"at most {100 * shares[worst]:.0f} % of a layer's units are never active (`{worst}`; active in fewer than "
        f"{bound:.2g} % of rows, with 95 % confidence)",
        figures=(figure,) if any(shares.values()) else (),
        looked_at=len(judged),
    )


def _dead(units: Units) -> float:
    assert units.active is not None
    return float((units.active == 0).double().mean())


def _fault(units: Units) -> Finding:
    assert units.active is not None
    dead, total = int((units.active == 0).sum()), units.active.numel()
    return Finding(
        f"{dead} of {total} units of `{units.name}` are 0 for all of {units.samples} samples before training: no "
        "gradient reaches the layers before them",
        units.place if units.place.path else Location(symbol=units.name.partition(" ")[0]),
        help="look at the bias and the scale of the layer before it; inputs of one sign do this as well",
        numbers={"dead": float(dead), "units": float(total)},
    )
