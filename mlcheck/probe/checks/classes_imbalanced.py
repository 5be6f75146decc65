"""Judges how often the rarest class is drawn, and whether anything makes up for it."""

from __future__ import annotations

import math
from collections import Counter

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.data.examples import has_classes, target_field
from mlcheck.probe.measure.data.passes import Passes
from mlcheck.probe.measure.loss.first_loss import FirstLoss

FEW = 100
TIMES = 10.0
MISSING = 0.5
DOMINANT = 0.9
CLEARLY = 2.0
NEARLY = 1.05
_SHOWN = 20


def check(passes: Passes, first: FirstLoss, *, times: float = TIMES) -> Verdict:
    target = target_field(passes.training, first)
    if target is None or not has_classes(target, first):
        return Verdict(Outcome.SKIP, reason="no class label a sample that a loss is given")
    counts = Counter(int(label) for label in target.labels if label >= 0)
    drawn = sum(counts.values())
    if drawn < FEW or len(counts) < 2:
        return Verdict(
            Outcome.SKIP,
            reason=f"{plural(drawn, 'sample')} of {plural(len(counts), 'class')} drawn: too few to compare",
        )
    (most, many), (least, few) = counts.most_common(1)[0], counts.most_common()[-1]
    batch = max(target.lengths)
    missing = (1 - few / drawn) ** batch
    told = (
        f"class {least} is {_percent(few / drawn)} of the samples drawn, class {most} {_percent(many / drawn)}: "
        f"{_percent(missing)} of the batches of {batch} have no sample of class {least}"
    )
    numbers = {"rarest": few / drawn, "most frequent": many / drawn, "batches without the rarest": missing}
    sure = _sure_ratio(many, few, len(counts))
    skewed = sure >= times and (missing >= MISSING or many / drawn >= DOMINANT)
    worse = _rarer_still(first, counts, most, least, CLEARLY if skewed else NEARLY)
    if worse := worse or (_drawn_rarer(passes.weights, few / drawn) if skewed else ""):
        finding = Finding(
            f"{told}; {worse}", help="weigh a class by one over its share, or not at all", numbers=numbers
        )
        return _warned(finding, counts, numbers, drawn)
    if not skewed:
        return Verdict(Outcome.PASS, told, figures=(_figure(counts),), numbers=numbers, looked_at=drawn)
    if any(loss.weighted or loss.reduction == "none" for loss in first.losses):
        return Verdict(
            Outcome.PASS,
            f"{told}; the loss weighs classes or samples",
            figures=(_figure(counts),),
            numbers=numbers,
            looked_at=drawn,
        )
    finding = Finding(
        f"{told}, and neither the sampler nor the loss makes up for it",
        help="draw with a WeightedRandomSampler or weigh classes in the loss, and report recall a class, not accuracy",
        numbers=numbers,
    )
    return _warned(finding, counts, numbers, drawn)


def _warned(finding: Finding, counts: Counter[int], numbers: dict[str, float], drawn: int) -> Verdict:
    return Verdict(
        Outcome.WARN,
        finding.message,
        findings=(finding,),
        figures=(_figure(counts),),
        numbers=numbers,
        looked_at=drawn,
    )


def _rarer_still(first: FirstLoss, counts: Counter[int], most: int, least: int, near: float) -> str:
    """Weights that are the frequencies; others that favour the frequent class are meant, and so is a weight of 0."""
    weights = [loss.class_weights for loss in first.losses if max(most, least) < len(loss.class_weights)]
    if len(weights) != 1 or not 0 < weights[0][least] < weights[0][most] / CLEARLY:
        return ""
    by_frequency = (weights[0][most] / weights[0][least]) / (counts[most] / counts[least])
    if not 1 / near <= by_frequency <= near:
        return ""
    return (
        f"and the loss counts a sample of class {most} {weights[0][most] / weights[0][least]:.3g} times as much as one "
        f"of class {least}: its weights make the rare class rarer still"
    )


def _drawn_rarer(weights: tuple[tuple[float, int], ...], share: float) -> str:
    """A sampler whose weights are the frequencies: those it draws the most seldom are more of the data than of it."""
    drawn, held = sum(weight * times for weight, times in weights), sum(times for _, times in weights)
    if len(weights) < 2 or not drawn > 0:
        return ""
    weight, times = min((one for one in weights if one[0] > 0), key=lambda one: one[0] * one[1])
    expected = weight * times / drawn
    if not 1 / CLEARLY <= share / expected <= CLEARLY or times / held < CLEARLY * expected:
        return ""
    return (
        f"and {_percent(times / held)} of the data set are drawn so seldom: the sampler's weights make the rare class "
        "rarer still"
    )


def _sure_ratio(many: int, few: int, classes: int) -> float:
    """How many times more frequent at least: counts are Poisson, their roots have a deviation of one half."""
    reach = 0.5 * (1 + math.sqrt(2 * math.log(classes)))
    return max(0.0, math.sqrt(many) - reach) ** 2 / (math.sqrt(few) + reach) ** 2


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _figure(counts: Counter[int]) -> Figure:
    shown = sorted(counts) if len(counts) <= _SHOWN else [label for label, _ in counts.most_common(_SHOWN)]
    title = "samples drawn of each class" + ("" if len(counts) <= _SHOWN else f", the {_SHOWN} most frequent")
    return Figure("bars", title, {"labels": [str(c) for c in shown], "values": [counts[c] for c in shown]})
