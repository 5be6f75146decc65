"""Judges whether training samples still show their label after augmentation, as validation samples do."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.data.labels import Labels
from mlcheck.probe.measure.data.mates import mates
from mlcheck.probe.measure.data.mirrored import told_by_mirror
from mlcheck.probe.measure.data.mirrored_classes import exchanged_class
from mlcheck.probe.measure.data.mixed_partners import MixedPartners
from mlcheck.probe.measure.data.neighbours import Split, consensus, features
from mlcheck.probe.measure.data.passes import Passes
from mlcheck.probe.measure.data.samples import Samples
from mlcheck.probe.measure.data.step_inputs import LABEL, StepInputs
from mlcheck.probe.measure.data.twin_views import TwinViews
from mlcheck.probe.measure.loss.first_loss import FirstLoss
from mlcheck.probe.measure.names import part_of
from mlcheck.probe.measure.training.short_run import ShortRun

FEW = 100
FEW_STEPS = 60
FEW_MATES = 8
GUESSED = 0.97
LITTLE = 0.05
CHANCE = 2.0
HARDLY = 0.53
CLEAR = 0.6
HALF = 0.5
CLEAN = 0.1
LEFT = 0.25
NOTHING_LEFT = 0.1
PLACED = 0.5
DROWNING = 3.0
ALL = 0.7
FLIPS = ("flipped left to right", "flipped upside down", "turned by 180 degrees")


def check(
    samples: Samples | None,
    labels: Labels | None,
    passes: Passes | None,
    views: TwinViews | None,
    first: FirstLoss | None,
    run: ShortRun | None,
    inputs: StepInputs | None,
    mixing: MixedPartners | None,
) -> Verdict:
    if mixing and (finding := _mixed_apart(mixing)):
        return Verdict(Outcome.FAIL, finding.message, findings=(finding,), looked_at=mixing.rows)
    if samples is None:
        return Verdict(Outcome.SKIP, reason="the training loader does not read from a data set that can be asked")
    if passes and views and first and run and (finding := _strangers(passes, views, first, run)):
        return Verdict(Outcome.WARN, finding.message, findings=(finding,), looked_at=samples.training.read_twice)
    if not samples.training.varying and inputs and passes and labels:
        return _in_the_step(inputs, passes, labels)
    if not samples.training.varying:
        return Verdict(Outcome.SKIP, reason="training samples are the same when read again: they are not augmented")
    if finding := _left_behind(samples) or _led_astray(samples):
        return Verdict(Outcome.FAIL, finding.message, findings=(finding,), looked_at=samples.training.read_twice)
    if passes is not None and (finding := _still_placed(samples, passes)):
        return Verdict(Outcome.WARN, finding.message, findings=(finding,), looked_at=samples.training.read_twice)
    if passes is not None and (finding := _drowned(samples, passes, first)):
        return Verdict(Outcome.WARN, finding.message, findings=(finding,), looked_at=samples.training.read_twice)
    if labels is None or passes is None:
        return Verdict(Outcome.SKIP, reason="no class label a sample was seen, which augmentation could hide")
    use = next((use for use in labels.uses if use.one_a_sample and use.field), None)
    if use and use.field and (finding := _made_another_class(samples, passes, use.field)):
        return Verdict(Outcome.WARN, finding.message, findings=(finding,), looked_at=samples.training.read_twice)
    training = features(passes.training.kept, use.field) if use else None
    held_out = features(passes.validation.kept, use.field) if use and passes.validation else None
    if use is None or training is None or held_out is None:
        return Verdict(Outcome.SKIP, reason="there is no class label a sample beside inputs of one size in both splits")
    return _compared(training, held_out, use.ignored, LEFT)


def _mixed_apart(seen: MixedPartners) -> Finding | None:
    """Nearly all rows of a fault: the partner of labels has by chance the class of the inputs' own now and then."""
    if seen.others > HALF * seen.rows:
        message = (
            f"samples are mixed with other partners than their labels: of {seen.rows} samples that the model gets as a "
            f"part of themselves and the rest of another, {seen.others} have the label of a third one mixed in"
        )
        return Finding(message, seen.place, help="draw the order once, and use it for inputs and labels alike")
    if seen.exchanged > HALF * seen.rows:
        message = (
            f"labels are mixed in exchanged parts: of {seen.rows} mixed samples {seen.exchanged} have the part of "
            "their partner in the label that they have of themselves in the input"
        )
        return Finding(message, seen.place, help="weigh each label as its input is weighed")
    return None


def _in_the_step(inputs: StepInputs, passes: Passes, labels: Labels) -> Verdict:
    """Samples as the model gets them in a training step that augments them, and validation samples as they are."""
    use = next((use for use in labels.uses if use.one_a_sample and use.field), None)
    training = features(list(inputs.batches), LABEL)
    held_out = features(passes.validation.kept, use.field) if use and passes.validation else None
    if use is None or training is None or held_out is None:
        return Verdict(Outcome.SKIP, reason="there is no class label a sample beside inputs of one size in both splits")
    where = f" (`{part_of('batch', inputs.place)}` is changed in the training step)"
    return _compared(training, held_out, use.ignored, NOTHING_LEFT, where)


def _compared(training: Split, held_out: Split, ignored: int, left: float, where: str = "") -> Verdict:
    """Whether neighbours agree on a label among augmented samples as among those of the other split."""
    plain, augmented = consensus(held_out, ignored), consensus(training, ignored)
    if plain.samples < FEW or plain.judged < CLEAR * plain.samples or plain.share > CLEAN:
        return Verdict(
            Outcome.INCONCLUSIVE,
            reason="the inputs as they are do not tell the classes apart, without augmentation either",
        )
    before, after = plain.judged / plain.samples, augmented.judged / augmented.samples
    told = (
        f"{100 * after:.0f} % of the augmented training samples have neighbours that agree on a label, where "
        f"{100 * before:.0f} % of the validation samples have"
    )
    if augmented.samples < FEW or after >= left * before:
        return Verdict(Outcome.PASS, told, looked_at=augmented.samples)
    message = f"augmentation hides what the label says: {told}{where}"
    finding = Finding(message, help="look at augmented samples and name them yourself; weaken what you cannot name")
    return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=augmented.samples)


def _made_another_class(samples: Samples, passes: Passes, label: str) -> Finding | None:
    """A flip or turn of the training pictures that makes validation pictures look like those of another class."""
    flips = samples.training.flips
    held_out = passes.validation.kept if passes.validation and label not in flips.together else []
    for (moved, how), count in flips.moves.items():
        found = exchanged_class(held_out, moved, label, how) if how and count > 1 else None
        if found:
            picture = part_of("sample", moved)
            message = (
                f"augmentation changes the class: training pictures `{picture}` are {how} and keep their label, but "
                f"after the same move {found.other_like} of {found.judged} validation pictures of class {found.one} "
                f"look like class {found.other}, by their nearest neighbours"
            )
            help_ = "leave this flip or turn out, or change the label with it"
            return Finding(message, Location(symbol=picture), help=help_)
    return None


def _drowned(samples: Samples, passes: Passes, first: FirstLoss | None) -> Finding | None:
    """Inputs whose readings lie farther apart than the validation samples, which are read as they are, from each other.

    It has to account for nearly all that training inputs differ by, and validation has to lack it.
    """
    for name in samples.training.varying:
        here = passes.training.fields.get(name)
        there = passes.validation.fields.get(name) if passes.validation else None
        drawn_too = samples.validation is None or name in samples.validation.varying
        if here is None or there is None or drawn_too or (first and first.inputs and name not in first.inputs):
            continue
        noise, signal = samples.training.noise.variance(name), float(there.spread.pow(2).mean())
        whole = float(here.spread.pow(2).mean())
        if not signal or noise < DROWNING**2 * signal or noise < ALL * whole:
            continue
        message = (
            f"augmentation drowns the sample: two readings of `{here.place}` differ by noise of deviation "
            f"{noise**0.5:.3g}, {(noise / signal) ** 0.5:.3g} times what validation samples differ by "
            f"({signal**0.5:.3g}), which are read without it"
        )
        help_ = "weaken it until you can name an augmented sample yourself; noise is measured in units of the data"
        return Finding(message, Location(symbol=here.place), help=help_, numbers={"times": (noise / signal) ** 0.5})
    return None


def _strangers(passes: Passes, views: TwinViews, first: FirstLoss, run: ShortRun) -> Finding | None:
    """Views that are to find each other among those of the batch, have nothing in common, and are not found."""
    chance = _guessing(first)
    last = run.losses[-(run.steps // 3) :]
    if chance is None or run.steps < FEW_STEPS or sum(last) / len(last) < GUESSED * chance:
        return None
    found = {pair: mates(passes.training.kept, *pair) for pair in views.names}
    apart = (one and one.pairs >= FEW and (one.deviations < CHANCE or one.nearer < HARDLY) for one in found.values())
    if not all(apart):
        return None
    (one, other), seen = max(found.items(), key=lambda item: item[1].deviations if item[1] else 0.0)
    assert seen is not None
    names = f"`{part_of('batch', one)}` and `{part_of('batch', other)}`"
    message = (
        f"the two views of a sample, {names}, have nothing in common: among {seen.pairs} pairs a view lies nearer to "
        f"its own mate than to others' in {100 * seen.nearer:.0f} % of comparisons, and after "
        f"{plural(run.steps, 'training step')} the loss is {sum(last) / len(last):.3g}, that of guessing ({chance:.3g})"
    )
    help_ = "look at pairs of views side by side: are they of one sample, and is it still to be seen in both?"
    return Finding(message, first.place, help=help_)


def _guessing(first: FirstLoss) -> float | None:
    """What it costs to guess which of the batch's own samples belongs to each; None for any other loss."""
    if first.targets or not first.losses or (first.penalty and first.penalty.value > LITTLE):
        return None
    for loss in first.losses:
        if loss.kind != "cross_entropy" or len(loss.input_shape) != 2 or loss.pull is None:
            return None
        if loss.input_shape[1] < loss.input_shape[0] - 1 or loss.input_shape[0] < FEW_MATES:
            return None
    return sum(loss.ignorant * (loss.pull or 0.0) for loss in first.losses)


def _left_behind(samples: Samples) -> Finding | None:
    for left, moved, how, count in samples.training.flips.left_behind():
        return _moved_alone(samples, moved, how, left, "is unchanged", count)
    return None


def _led_astray(samples: Samples) -> Finding | None:
    for left, moved, how, answer, count in samples.training.flips.led_astray():
        return _moved_alone(samples, moved, how, left, f"is {answer}" if answer else "is unchanged", count)
    return None


def _moved_alone(samples: Samples, moved: str, how: str, left: str, answer: str, count: int) -> Finding:
    name, picture = part_of("sample", left), part_of("sample", moved)
    message = (
        f"augmentation transforms the picture and not what belongs to it: `{picture}` is {how} and "
        f"`{name}` {answer} ({count} of {plural(samples.training.read_twice, 'sample')} read twice)"
    )
    help_ = f"apply the same transformation to `{name}`: draw its random numbers once for both"
    return Finding(message, Location(symbol=name), help=help_)


def _still_placed(samples: Samples, passes: Passes) -> Finding | None:
    """Numbers that stay when the picture is flipped, though in validation they tell where something is in it."""
    held_out = passes.validation.kept if passes.validation else []
    flips = samples.training.flips
    for left in flips.still.keys() - flips.together:
        for (moved, how), count in flips.still[left].items():
            place = told_by_mirror(held_out, moved, left, how) if how in FLIPS and count > 1 else None
            if place is None or place.share < PLACED:
                continue
            name, picture = part_of("sample", left), part_of("sample", moved)
            message = (
                f"augmentation transforms the picture and not what belongs to it: `{picture}` is {how} and `{name}` is "
                f"unchanged ({count} of {plural(samples.training.read_twice, 'sample')} read twice), though column "
                f"{place.column} of it says where something is: the difference between {place.samples} "
                f"validation pictures and their mirror images explains {100 * place.share:.0f} % of its variance"
            )
            help_ = f"flip that column of `{name}` with the picture, about its middle, or leave this flip out"
            return Finding(message, Location(symbol=name), help=help_, numbers={"share": place.share})
    return None
