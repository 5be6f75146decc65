"""Judges whether activations grow from layer to layer without end."""

from __future__ import annotations

import math
from itertools import pairwise

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.model.activations import Activations, Layer

GROWTH = 1000.0
LARGE = 100.0
FEW = 3
FALLS = 0.5


def check(seen: Activations) -> Verdict:
    layers = [layer for layer in seen.layers if layer.spread]
    for layer in layers:
        if verdict := _round_by_round(layer):
            return verdict
    if len(layers) < FEW:
        return Verdict(Outcome.SKIP, reason=f"{len(layers)} linear or convolutional layers are too few to grow over")
    spreads = [_mean(layer.spread) for layer in layers]
    figure = Figure(
        "curves",
        "root mean square of each layer's output",
        {
            "series": [{"name": "output", "y": spreads}],
            "x_label": "layer",
            "y_label": "root mean square",
            "log_y": all(s > 0 for s in spreads),
        },
    )
    bad = next((layer for layer, spread in zip(layers, spreads) if not math.isfinite(spread)), None)
    first = next((spread for spread in spreads if spread > 0), 1.0)
    growth = max(spreads) / first if bad is None else math.inf
    if bad is None and (growth < GROWTH or max(spreads) < LARGE or spreads.index(max(spreads)) < FEW - 1):
        return Verdict(
            Outcome.PASS,
            f"over {plural(len(layers), 'layer')} the output is at most {growth:.3g} times the first layer's",
            figures=(figure,),
            numbers={"growth": growth},
            looked_at=len(layers),
        )
    worst = bad or layers[spreads.index(max(spreads))]
    told = "is not finite" if bad else f"is {growth:.3g} times that of `{layers[0].name}`"
    message = f"the output of `{worst.name}` {told} before training: every layer adds to the scale"
    finding = Finding(
        message,
        Location(symbol=worst.name.partition(" ")[0]),
        help="normalise (batch or layer norm), scale residual branches down, or initialise smaller",
    )
    return Verdict(Outcome.WARN, message, findings=(finding,), figures=(figure,), looked_at=len(layers))


def _round_by_round(layer: Layer) -> Verdict | None:
    """One layer that runs again and again in a pass, on what it made before."""
    spreads = [_mean(spread) for spread in layer.rounds if spread]
    if len(spreads) < FEW or not 0 < spreads[0] < math.inf:
        return None
    if all(map(math.isfinite, spreads)) and not (spreads[-1] >= max(GROWTH * spreads[0], LARGE)):
        return None
    if any(later < FALLS * earlier for earlier, later in pairwise(spreads)):
        return None
    growth = spreads[-1] / spreads[0]
    told = f"is {growth:.3g} times that of its first" if math.isfinite(growth) else "is not finite"
    message = (
        f"`{layer.name}` runs {plural(len(spreads), 'time')} in a pass, and the output of its last {told} before "
        "training: every round adds to the scale"
    )
    help_ = "normalise or bound what is fed back (layer norm, tanh), or initialise the layer orthogonally or smaller"
    finding = Finding(message, Location(symbol=layer.name.partition(" ")[0]), help=help_)
    y = {"series": [{"name": "output", "y": spreads}], "x_label": "round", "y_label": "root mean square", "log_y": True}
    figure = Figure("curves", f"root mean square of the output of `{layer.name}`, round by round", y)
    return Verdict(Outcome.WARN, message, findings=(finding,), figures=(figure,), looked_at=len(spreads))


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
