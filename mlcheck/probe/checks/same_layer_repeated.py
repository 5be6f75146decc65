"""Judges whether the entries of a container are layers of their own."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.model.repeated_layers import RepeatedLayer, RepeatedLayers


def check(seen: RepeatedLayers) -> Verdict:
    faults = [layer for layer in seen.layers if layer.chained >= layer.times - 1]
    if not faults:
        checked = plural(seen.containers, "container")
        return Verdict(Outcome.PASS, f"{checked} of layers: none runs the same one again", looked_at=seen.containers)
    findings = tuple(map(_fault, faults))
    return Verdict(Outcome.WARN, findings[0].message, findings=findings, looked_at=seen.containers)


def _fault(layer: RepeatedLayer) -> Finding:
    whole = f"entries {layer.first} to {layer.first + layer.times - 1} of `{layer.container}`"
    return Finding(
        f"{whole} are one and the same {layer.kind}: it runs {layer.times} times in a row, with a "
        f"single set of weights ({layer.parameters:,} parameters where one would expect "
        f"{layer.parameters * layer.times:,})",
        Location(symbol=f"{layer.container}.{layer.first}"),
        help="`[layer] * n` repeats one object: make each anew, `[Layer(...) for _ in range(n)]`; if the weights are "
        "shared on purpose, keep the layer once and call it in a loop (a checkpoint would hold it several times)",
        numbers={"times": float(layer.times), "parameters": float(layer.parameters)},
    )
