"""Judges how many labels differ from those of all samples that look alike."""

from __future__ import annotations

import math

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.data.examples import BINARY_LOSSES
from mlcheck.probe.measure.data.held_out_errors import Errors, as_often, held_out_errors
from mlcheck.probe.measure.data.labels import Labels
from mlcheck.probe.measure.data.neighbours import Consensus, consensus, features, table
from mlcheck.probe.measure.data.passes import Passes
from mlcheck.probe.measure.data.samples import Samples
from mlcheck.probe.measure.loss.first_loss import FirstLoss

FEW = 100
FEW_HELD_OUT = 30
JUDGED = 0.3
NOISY = 0.08
SHOWN = 24
EASY, BEYOND, FAR_BEYOND = 0.35, 0.03, 0.1
ALIKE = 0.05


def check(
    labels: Labels, passes: Passes, samples: Samples | None, first: FirstLoss | None = None, *, share: float = NOISY
) -> Verdict:
    verdict = _by_neighbours(labels, passes, samples, share)
    if verdict.outcome is Outcome.WARN or samples is None or samples.training.varying:
        return verdict
    use = next((use for use in labels.uses if use.one_a_sample and use.field), None)
    name = use.field if use else _tags(passes, first)
    training = table(passes.training.kept, name) if name else None
    held_out = table(passes.validation.kept, name) if name and passes.validation else None
    errors = held_out_errors(training, held_out, use.ignored if use else -1) if training and held_out else []
    if finding := _more_errors(errors, share, tags=use is None):
        return Verdict(Outcome.WARN, finding.message, findings=(finding,), looked_at=errors[0].asked)
    return verdict


def _tags(passes: Passes, first: FirstLoss | None) -> str:
    """The one tensor of the batch that is a binary loss's target, zeros and ones, several a sample."""
    if first is None or len(first.losses) != 1 or first.losses[0].kind not in BINARY_LOSSES:
        return ""
    fields = [passes.training.fields[name] for name in first.targets if name in passes.training.fields]
    tags = [one for one in fields if len(one.shape) == 2 and one.shape[1] > 1 and one.integral]
    return tags[0].name if len(tags) == 1 and (tags[0].low, tags[0].high) == (0, 1) else ""


def _more_errors(errors: list[Errors], share: float, tags: bool) -> Finding | None:
    """Where a simple model is wrong in training far more often than in validation, with neither seen before."""
    help_ = "look at training samples whose label such a model denies; labels may be wrong, or shifted against inputs"
    parts = [one for one in errors[1:] if _stands_out(one, share, FAR_BEYOND)]
    if not tags and (2 * len(parts) > len(errors[1:]) or not _others_agree(errors[1:], parts)):
        parts = []  # the splits differ in more than a few labels
    for one in ([one for one in errors[:1] if _stands_out(one, share, BEYOND)] or parts)[:1]:
        (low, _), (_, high) = interval(one.wrong, one.asked), interval(one.wrong_held_out, one.asked_held_out)
        whose = "of the labels" if one.part is None else f"of tag {one.part}" if tags else f"of class {one.part}"
        taken = f", most for class {one.taken_for}" if one.taken_for is not None else ""
        message = (
            f"a simple model, asked about samples that it has not seen, denies {100 * one.wrong / one.asked:.3g} % "
            f"{whose} in training{taken}, and {100 * one.wrong_held_out / one.asked_held_out:.3g} % in validation "
            f"(at least {100 * low:.3g} and at most {100 * high:.3g} %)"
        )
        return Finding(message, help=help_, numbers={"training": low, "validation": high})
    return None


def _others_agree(errors: list[Errors], apart: list[Errors]) -> bool:
    """Whether the other classes are as easy in both, which they are not where inputs are scaled otherwise."""
    others = [one for one in errors if one not in apart]
    wrong = sum(one.wrong for one in others) / max(sum(one.asked for one in others), 1)
    held_out = sum(one.wrong_held_out for one in others) / max(sum(one.asked_held_out for one in others), 1)
    return wrong - held_out < ALIKE


def _stands_out(one: Errors, share: float, beyond: float) -> bool:
    (low, _), (_, high) = interval(one.wrong, one.asked), interval(one.wrong_held_out, one.asked_held_out)
    gap = one.wrong / max(one.asked, 1) - one.wrong_held_out / max(one.asked_held_out, 1)
    return min(one.asked, one.asked_held_out) >= FEW_HELD_OUT and high <= EASY and low > high + beyond and gap >= share


def _by_neighbours(labels: Labels, passes: Passes, samples: Samples | None, share: float) -> Verdict:
    use = next((use for use in labels.uses if use.one_a_sample and use.field), None)
    training = features(passes.training.kept, use.field) if use else None
    if use is None or training is None:
        return Verdict(Outcome.SKIP, reason="there is no class label a sample beside inputs of one size")
    found = consensus(training, use.ignored)
    if found.judged < FEW or found.judged < JUDGED * found.samples:
        return Verdict(
            Outcome.INCONCLUSIVE,
            reason=f"only {found.judged} of {found.samples} samples have neighbours that agree: the inputs as they are "
            "do not tell the classes apart",
        )
    low, high = interval(len(found.suspects), found.judged)
    told = (
        f"{100 * found.share:.1f} % of labels ({100 * low:.1f} to {100 * high:.1f} %) differ from those of the "
        "samples most like theirs"
    )
    numbers = {"share": found.share, "low": low, "high": high}
    figures = _figures(found, training[1].tolist())
    if low <= share:
        return Verdict(Outcome.PASS, told, figures=figures, numbers=numbers, looked_at=found.judged)
    held_out = features(passes.validation.kept, use.field) if passes.validation else None
    control = consensus(held_out, use.ignored) if held_out else None
    if control is None or control.judged < FEW_HELD_OUT:
        reason = f"{told}, and too few held-out samples have neighbours that agree to tell noise from classes that mix"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason)
    # What neighbours get wrong in the held-out samples, at the most, is the classes' own overlap.
    overlap = interval(len(control.suspects), control.judged)[1]
    message = f"{told}; in validation {100 * control.share:.1f} % do (at most {100 * overlap:.1f} %)"
    numbers["in validation"] = control.share
    if low <= overlap:
        return Verdict(Outcome.PASS, message, figures=figures, numbers=numbers, looked_at=found.judged)
    if held_out and not as_often(*(y[(y >= 0) & (y != use.ignored)] for _, y in (training, held_out))):
        reason = (
            f"{message}, where labels are not as frequent: classes that mix do so more where they are drawn as often"
        )
        return Verdict(Outcome.INCONCLUSIVE, reason=reason)
    help_ = "look at the samples listed; labels may be wrong, or shifted against the inputs"
    if samples and samples.training.varying:
        message += "; training samples are augmented, and may no longer show what their label says"
        help_ += ", and a flip or a turn may make another class of a sample"
    finding = Finding(message, help=help_)
    return Verdict(
        Outcome.WARN,
        message,
        findings=(finding,),
        figures=figures,
        numbers=numbers,
        looked_at=found.judged,
    )


def interval(count: int, of: int) -> tuple[float, float]:
    """Wilson's interval at 99 %."""
    z, n, p = 2.576, max(of, 1), count / max(of, 1)
    middle, reach = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(0.0, (middle - reach) / (1 + z * z / n)), (middle + reach) / (1 + z * z / n)


def _figures(found: Consensus, labels: list[int]) -> tuple[Figure, ...]:
    if not found.suspects:
        return ()
    rows = [[place, labels[place]] for place in found.suspects[:SHOWN]]
    return (Figure("table", "the most suspicious labels", {"columns": ["place in the pass", "label"], "rows": rows}),)
