"""Judges whether the difference between samples gets to the last layer, and the gradient to the first."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.model.activations import Activations, Layer
from mlcheck.probe.measure.model.stacked_recurrent import StackedRecurrent
from mlcheck.probe.measure.training.overfit import Overfit

FEW = 4
GRADIENT_RATIO = 1e-6
FAINT = 1e-3
SUDDEN = 1e-4


def check(seen: Activations, overfit: Overfit | None, recurrent: StackedRecurrent | None) -> Verdict:
    if recurrent and (fading := _fading_within(recurrent)):
        return Verdict(Outcome.WARN, fading.message, findings=(fading,), looked_at=len(recurrent.gradients))
    layers = [layer for layer in seen.layers if layer.spread and layer.gradient]
    if len(layers) < 2:
        return Verdict(Outcome.SKIP, reason=f"{len(layers)} linear or convolutional layers are too few to fade over")
    figure = _figure(layers)
    lost = [layer for layer in layers if 0 <= _mean(layer.between) < seen.precision**2]
    never_there = layers[0] in lost  # what does not reach the first layer does not fade: the input is ignored
    by_choice = all(layer.gain == 0 for layer in lost)  # a last layer of zeros: equal chances before the first step
    excused = never_there or by_choice or _is_sudden(layers, lost)
    if layers[-1] not in lost or _mean(layers[-1].spread) == 0 or excused or len(layers) < FEW:
        lost = []
    first, ratio = _what_arrives(layers)
    findings = []
    faint = [layer for layer in layers if 0 < layer.gain < FAINT]
    if len(faint) == len(layers) or (len(faint) > 1 and ratio < FAINT):
        findings.append(_faint(faint, len(layers)))
    if lost:
        findings.append(_lost(lost[0], seen.precision))
    if ratio < GRADIENT_RATIO:
        findings.append(_vanishing(first, ratio))
    if findings:
        learns = overfit is not None and overfit.mine.reached(overfit.goal)
        failed = overfit is not None and overfit.floors is not None and not learns and bool(lost)
        outcome = Outcome.FAIL if failed else Outcome.WARN
        return Verdict(outcome, findings[0].message, findings=tuple(findings), figures=(figure,), looked_at=len(layers))
    return Verdict(
        Outcome.PASS,
        f"over {plural(len(layers), 'layer')} the gradient falls by a factor of {1 / ratio:.3g}, samples stay apart",
        figures=(figure,),
        numbers={"first to largest gradient": ratio},
        looked_at=len(layers),
    )


def _fading_within(seen: StackedRecurrent) -> Finding | None:
    for name, gradients in seen.gradients.items():
        if (ratio := gradients[0] / max(gradients)) < GRADIENT_RATIO:
            return _vanishing(f"layer 0 of {name}", ratio, name)
    return None


def _is_sudden(layers: list[Layer], lost: list[Layer]) -> bool:
    """Whether it was there one layer before: what chooses one of a few codes may choose the same for all at first."""
    if not lost or layers[0] in lost:
        return False
    return _mean(layers[layers.index(lost[0]) - 1].between) > SUDDEN


def _what_arrives(layers: list[Layer]) -> tuple[str, float]:
    """The first layer that gets the most gradient, and its share of the largest.

    Of a deep model several of the first are asked: queries and keys of attention get next to nothing at the start,
    where the weights are equal, while the value beside them gets all.
    """
    several = max(3, len(layers) // 4) if len(layers) >= 6 else 1
    pulls = {layer.name: _mean(layer.gradient) for layer in layers}
    first = max((layer.name for layer in layers[:several]), key=lambda name: pulls[name])
    return first, pulls[first] / max(pulls.values()) if pulls[first] > 0 else 1.0


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _faint(layers: list[Layer], of: int) -> Finding:
    loudest = max(layers, key=lambda layer: layer.gain)
    which = f"all {of} layers" if len(layers) == of else f"{len(layers)} of {of} layers"
    return Finding(
        f"the weights of {which} begin next to zero: each passes on {loudest.gain:.1g} of what it "
        f"gets at most (`{loudest.name}`), and as little gradient back",
        Location(symbol=loudest.name.partition(" ")[0]),
        help="initialise for the width: nn.init.kaiming_normal_ before ReLU, xavier_uniform_ otherwise",
        numbers={"gain": loudest.gain},
    )


def _lost(layer: Layer, precision: float) -> Finding:
    return Finding(
        f"at `{layer.name}` samples differ by {_mean(layer.between):.1g} of the signal's power, less than rounding "
        f"({precision**2:.1g}): what follows cannot tell them apart",
        Location(symbol=layer.name.partition(" ")[0]),
        help="use ReLU or GELU with He initialisation, normalisation layers or residual connections",
        numbers={"share": _mean(layer.between)},
    )


def _vanishing(name: str, ratio: float, module: str = "") -> Finding:
    return Finding(
        f"the gradient vanishes in the backward pass: at `{name}` it is {ratio:.1g} times its largest value",
        Location(symbol=(module or name).partition(" ")[0]),
        help="use ReLU or GELU with He initialisation, normalisation layers or residual connections",
        numbers={"ratio": ratio},
    )


def _figure(layers: list[Layer]) -> Figure:
    gradients = [_mean(layer.gradient) for layer in layers]
    between = [_mean(layer.between) for layer in layers]
    positive = all(value > 0 for value in gradients + between)
    series = [
        {"name": "gradient, rms", "y": gradients},
        {"name": "samples apart, share", "y": between},
    ]
    title = "from the first layer to the last: gradients, and what of the power is the difference between samples"
    return Figure("curves", title, {"series": series, "x_label": "layer", "log_y": positive})
