"""Judges whether labels go with their inputs: samples that look alike have the same label more often than by chance."""

from __future__ import annotations

import math

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.data.examples import Examples, examples, tagged_examples
from mlcheck.probe.measure.data.passes import Passes
from mlcheck.probe.measure.data.samples import Samples
from mlcheck.probe.measure.data.shifted import shifts
from mlcheck.probe.measure.loss.drawn_targets import DrawnTargets
from mlcheck.probe.measure.loss.first_loss import FirstLoss
from mlcheck.probe.measure.names import part_of
from mlcheck.probe.measure.training.overfit import Overfit
from mlcheck.probe.measure.training.short_run import ShortRun
from mlcheck.probe.measure.validation.baselines import Baselines, Signal, baselines, signal_across, signal_within

PRESENT = 0.01
LITTLE = 0.1
FEW = 100
MANY = 500
FEW_STEPS = 60
EXPLAINED = 0.05
MOST_COLUMNS = 64
COMMON = 0.7
HALF = 0.5
ELSEWHERE = 3.0  # times as far from the training samples as from one another: a series that has moved on
NO_ANSWER = -0.5  # further from the targets than their mean is: the output may not be meant for them


def check(
    drawn: DrawnTargets | None,
    passes: Passes | None,
    first: FirstLoss | None,
    samples: Samples | None,
    run: ShortRun | None,
    memorised: Overfit | None,
) -> Verdict:
    if drawn and (finding := _noise_of_its_own(drawn)):
        return Verdict(Outcome.WARN, finding.message, findings=(finding,), looked_at=len(drawn.targets))
    learns = run if memorised is None or memorised.manages(HALF) else None
    seen = _by_neighbours(passes, first, samples, learns) if passes and first else None
    if drawn and (seen is None or seen.outcome is Outcome.SKIP):
        told = "the noise that the loss asks for is in what the model is given"
        return Verdict(Outcome.PASS, told, looked_at=len(drawn.targets))
    return seen or Verdict(Outcome.SKIP, reason="no loss is seen to compare predictions with targets of the batch")


def _noise_of_its_own(drawn: DrawnTargets) -> Finding | None:
    for target in drawn.targets:
        if not target.known:
            loss = f"`{target.loss}`" if target.loss else "the error that is written out"
            message = (
                f"the target of {loss} is noise that the model cannot know: with other normal numbers in its "
                "place every prediction is the same, bit for bit, so the best that can be learnt is their mean"
            )
            help_ = "draw the noise once, put it into the input and compare the prediction with the same tensor"
            return Finding(message, target.place, help=help_, related=(target.drawn,))
    return None


def _by_neighbours(passes: Passes, first: FirstLoss, samples: Samples | None, run: ShortRun | None) -> Verdict:
    """`run` is one that could have learnt the labels, had there been anything to learn."""
    if samples and (finding := _shifted(samples, first)):
        looked_at = len(samples.training.in_order)
        return Verdict(Outcome.WARN, finding.message, findings=(finding,), numbers=finding.numbers, looked_at=looked_at)
    tagged = tagged_examples(passes.training, first)
    table = tagged_examples if tagged else examples
    training = tagged or examples(passes.training, first)
    held_out = table(passes.validation, first) if passes.validation else None
    mine = signal_within(training) if training else None
    if training is None or mine is None:
        return Verdict(Outcome.SKIP, reason="there is no one target a sample beside inputs of one size")
    theirs = signal_within(held_out) if held_out else None
    across = signal_across(training, held_out) if held_out else None
    numbers = {"p": mine.p, "agreement": mine.score, "permuted": mine.permuted}
    augmented = bool(samples and samples.training.varying)
    message = "" if augmented else _fault(mine, theirs, across, _same_classes(training, held_out))
    if not message and not tagged and held_out and across and run:
        enough = mine.samples >= MANY // 2 and len(held_out.y) >= FEW
        if enough and (not augmented or _validation_tells_none(samples, theirs)):
            found = baselines(training, held_out)
            message = _nothing_tells(found, mine, across, run) or _nothing_told(found, held_out, first, across, run)
            message = message if mine.p >= PRESENT else ""
    if message:
        finding = Finding(
            message,
            help="look at how inputs and labels are put together: file order, a shuffle of one of them, a join",
            numbers=numbers,
        )
        return Verdict(Outcome.WARN, message, findings=(finding,), numbers=numbers, looked_at=mine.samples)
    if mine.p >= PRESENT:
        return Verdict(
            Outcome.INCONCLUSIVE,
            reason=f"nearest neighbours among {mine.samples} samples share a label no more often than by chance (p = "
            f"{mine.p:.2g}): distances between raw inputs may be too crude to tell",
            numbers=numbers,
        )
    told = "the targets of nearest neighbours are closer than by chance"
    if training.classes:
        told = f"{100 * mine.score:.3g} % of nearest neighbours share a label, {100 * mine.permuted:.3g} % by chance"
    return Verdict(Outcome.PASS, f"{told}, p = {mine.p:.2g}", numbers=numbers, looked_at=mine.samples)


def _shifted(samples: Samples, first: FirstLoss) -> Finding | None:
    """A target that is told by the input some places away, and not at all by its own."""
    for seen in shifts(samples.training.in_order, first.inputs, first.targets):
        if not seen.is_certain:
            continue
        name, places = part_of("sample", seen.target), abs(seen.offset)
        where = f"{'the sample' if places == 1 else f'{places} samples'} {'after' if seen.offset > 0 else 'before'} it"
        message = (
            f"`{name}` is shifted against its inputs: among {seen.samples} training samples in the order of the data "
            f"set, those with near inputs agree in the `{name}` of {where} ({seen.best:.0f} standard deviations above "
            f"chance), and in their own no more than by chance ({seen.own:.1f})"
        )
        help_ = "look at how the two are indexed: an offset, a header line in one file, one that was cut or rolled"
        return Finding(message, Location(symbol=name), help=help_, numbers={"own": seen.own, "shifted": seen.best})
    return None


def _fault(mine: Signal, theirs: Signal | None, across: Signal | None, same_classes: bool) -> str:
    """A control shows what training lacks: validation has the signal with no more samples, or nothing carries over."""
    if theirs is None or across is None or theirs.p >= PRESENT / 4:
        return ""
    control = theirs.score - theirs.permuted
    within, carried = (mine.score - mine.permuted) / control, (across.score - across.permuted) / control
    if mine.p > PRESENT and within < LITTLE and carried < LITTLE and mine.samples >= max(FEW, theirs.samples):
        return (
            "training labels are unrelated to their inputs: nearest neighbours share a label no more often than by "
            f"chance (p = {mine.p:.2g} in {mine.samples} samples), while in validation they do (p = {theirs.p:.2g} in "
            f"{theirs.samples})"
        )
    if (
        mine.p < PRESENT / 4
        and within > 0.5
        and carried < LITTLE
        and same_classes
        and across.apart < ELSEWHERE
        and min(mine.samples, theirs.samples) >= FEW
    ):
        return (
            "labels mean something else in validation: within each split nearest neighbours share a label, and from "
            f"training to validation no more often than by chance ({across.samples} samples)"
        )
    return ""


def _validation_tells_none(samples: Samples | None, theirs: Signal | None) -> bool:
    """Whether it is no augmentation that hides the labels: validation samples stay as they are and tell none either."""
    split = samples.validation if samples else None
    return bool(split and not split.varying and theirs and theirs.p >= PRESENT and theirs.samples >= FEW)


def _nothing_tells(found: Baselines | None, mine: Signal, across: Signal, run: ShortRun) -> str:
    """Neighbours, a linear model and the user's own, which has seen every sample, all stay at the commonest class."""
    own = run.accuracy
    if found is None or found.measure != "accuracy" or own is None or run.steps < FEW_STEPS or run.epochs < 1:
        return ""
    if any(math.isnan(value) for metrics in run.after for value in metrics.values()):
        return ""  # an answer that is no number is a class too
    error = 2 * math.sqrt(found.constant * (1 - found.constant) / found.asked)
    chance = max(found.constant, found.commonest)
    if found.constant > COMMON or min(mine.p, across.p) < PRESENT or max(found.best[1], own) > chance + error:
        return ""
    return (
        f"nothing tells the labels: on {found.asked} validation samples the commonest class has {chance:.3f}, the "
        f"nearest neighbour {found.neighbour:.3f}, a linear model {found.linear:.3f}, yours after {run.epochs:.2g} "
        f"epochs {own:.3f}; in training neighbours share a label as by chance (p = {mine.p:.2g} in {mine.samples})"
    )


def _nothing_told(found: Baselines | None, held_out: Examples, first: FirstLoss, across: Signal, run: ShortRun) -> str:
    """The same of numbers that a squared error is given as they are: none explains any of their variance."""
    if found is None or found.measure == "accuracy" or run.predictions is None:
        return ""
    variance = float(held_out.y.var(correction=0))
    if not variance or not _is_squared_error(first, held_out, variance):
        return ""
    if run.steps < FEW_STEPS or run.epochs < 1:
        return ""
    own = 1 - run.predictions.mean / variance
    if not first.losses and own < NO_ANSWER:
        return ""
    if held_out.x.shape[1] > MOST_COLUMNS or not bool((held_out.x != held_out.x.round()).any()):
        return ""  # pictures and ids lie near each other for other reasons
    if across.p < PRESENT or max(found.linear, own) > EXPLAINED or not math.isfinite(own):
        return ""
    return (
        f"nothing tells the targets: of their variance in {found.asked} validation samples a linear model explains "
        f"{100 * max(found.linear, 0):.2g} %, yours after {run.epochs:.2g} epochs {100 * max(own, 0):.2g} %; samples "
        f"that lie near each other have near targets as by chance (p = {across.p:.2g})"
    )


def _is_squared_error(first: FirstLoss, held_out: Examples, variance: float) -> bool:
    """Of the targets as they are: torch's own, or what the program writes by hand and gives one number a sample."""
    if not first.losses:
        return len(first.written) == 1
    loss, low, high = first.losses[0], float(held_out.y.min()) - variance, float(held_out.y.max()) + variance
    return len(first.losses) == 1 and loss.kind == "mse_loss" and loss.low >= low and loss.high <= high


def _same_classes(one: Examples, other: Examples | None) -> bool:
    return other is not None and (not one.classes or set(one.y.tolist()) == set(other.y.tolist()))
