"""Judges whether masks lie over their pictures, or would if they were flipped or turned, or are those of others."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.data.alignment import Alignment, alignment
from mlcheck.probe.measure.data.passes import Passes
from mlcheck.probe.measure.data.samples import Samples
from mlcheck.probe.measure.data.shifted_masks import mask_shifts
from mlcheck.probe.measure.loss.first_loss import FirstLoss
from mlcheck.probe.measure.names import part_of

FEW = 30
LITTLE = 0.1
TWICE = 2.0
NEARLY_ALL = 0.9
PART = 0.1
FAR_MORE = 4


def check(passes: Passes, first: FirstLoss, samples: Samples | None) -> Verdict:
    if samples and (finding := _of_others(samples, first)):
        looked_at = len(samples.training.in_order)
        return Verdict(Outcome.WARN, finding.message, findings=(finding,), numbers=finding.numbers, looked_at=looked_at)
    seen = alignment(passes.training.kept, first.inputs, first.targets)
    if seen is None:
        return Verdict(Outcome.SKIP, reason="no mask of classes is the target of a picture of its size")
    if seen.samples < FEW:
        return Verdict(
            Outcome.INCONCLUSIVE, reason=f"too few masks change when they are flipped or turned: {seen.samples}"
        )
    if _moved_at_times(seen):
        return _some(seen)
    as_is, moved = f"{100 * seen.given:.2g} %", f"{100 * seen.moved:.2g} %"
    if max(seen.given, seen.moved) < LITTLE:
        reason = f"masks account for {as_is} of their pixels' variance, moved for {moved} at most: too little to tell"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, looked_at=seen.samples)
    if seen.moved < TWICE * seen.given or seen.better < NEARLY_ALL:
        told = f"masks account for {as_is} of their pixels' variance as they are, {seen.move} for {moved}"
        return Verdict(Outcome.PASS, told, looked_at=seen.samples)
    message = (
        f"`{seen.mask}` fits `{seen.picture}` when it is {seen.move}: it then accounts for {moved} of the pixels' "
        f"variance, for {as_is} as it is, and for more in {100 * seen.better:.3g} % of {seen.samples} samples"
    )
    help_ = "look at the order of height and width, and at where the two are flipped: rows come first, (y, x)"
    finding = Finding(message, Location(symbol=seen.mask), help=help_)
    return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=seen.samples)


def _of_others(samples: Samples, first: FirstLoss) -> Finding | None:
    """Masks that fit the pictures some places away, and their own no better than any other."""
    for seen in mask_shifts(samples.training.in_order, first.inputs, first.targets):
        if not seen.is_certain:
            continue
        name, places = part_of("sample", seen.target), abs(seen.offset)
        where = f"{'the sample' if places == 1 else f'{places} samples'} {'before' if seen.offset > 0 else 'after'} it"
        message = (
            f"`{name}` is shifted against the pictures: among {seen.samples} training samples in the order of the data "
            f"set, masks fit the picture of {where} ({seen.best:.0f} standard deviations above chance), and their own "
            f"no better than any other ({seen.own:.1f})"
        )
        help_ = "look at how the two are listed: an offset, an order of their own, a file that only one of them has"
        return Finding(message, Location(symbol=name), help=help_, numbers={"own": seen.own, "shifted": seen.best})
    return None


def _moved_at_times(seen: Alignment) -> bool:
    """Whether some masks fit only when moved, far more than another sample's would by chance, and others only as is."""
    return (
        min(seen.only_moved, seen.as_is) >= max(FEW // 3, PART * seen.samples)
        and seen.only_moved + seen.as_is >= seen.samples / 2
        and seen.only_moved >= FAR_MORE * seen.by_chance
    )


def _some(seen: Alignment) -> Verdict:
    message = (
        f"in {seen.only_moved} of {seen.samples} samples `{seen.mask}` fits `{seen.picture}` only when it is "
        f"{seen.move}, in {seen.as_is} only as it is (those of other samples fit so by chance in {seen.by_chance})"
    )
    help_ = "what flips or turns a picture has to do the same to its mask, under the same draw"
    finding = Finding(message, Location(symbol=seen.mask), help=help_)
    return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=seen.samples)
