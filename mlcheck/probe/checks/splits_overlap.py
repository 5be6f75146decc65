"""Judges whether validation samples are among the training samples."""

from __future__ import annotations

import math
from collections import Counter

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.data.passes import Passes
from mlcheck.probe.measure.data.pictures import pairs
from mlcheck.probe.measure.data.samples import Samples
from mlcheck.probe.measure.data.shared_places import SharedPlaces, shared_places
from mlcheck.probe.measure.data.split import Split
from mlcheck.probe.measure.data.told_apart import are_told_apart
from mlcheck.probe.measure.validation.trained_places import TrainedPlaces

CHANCE = 1e-4


def check(seen: Samples | None, passes: Passes | None, counted: TrainedPlaces | None, *, share: float = 0.0) -> Verdict:
    places = shared_places(passes.training, passes.validation) if passes and passes.validation else None
    if places:
        return _by_place(places, share)
    if counted:
        return _in_metric(counted, share)
    if seen is None:
        return Verdict(Outcome.SKIP, reason="the loaders do not read from data sets that can be asked for a sample")
    training, validation = seen.training, seen.validation
    if validation is None or not validation.content or not training.content:
        return Verdict(Outcome.SKIP, reason="there is no validation data that can be asked for a sample")
    twins = _twins(training, validation)
    total = len(validation.content)
    numbers = {"shared": float(len(twins)), "validation samples": float(total)}
    looked = len(training.content) + total
    scope = f"{total:,} validation and {len(training.content):,} training samples"
    if not twins:
        if training.varying:
            return Verdict(
                Outcome.INCONCLUSIVE,
                reason=f"no sample is in both of {scope}, but training samples are augmented when they are read: "
                "equal ones would differ",
            )
        return Verdict(Outcome.PASS, f"no sample is in both of {scope}", numbers=numbers, looked_at=looked)
    if len(twins) <= share * total:
        told = f"{len(twins)} of {total:,} validation samples are training samples too, {100 * share:g} % are allowed"
        return Verdict(Outcome.PASS, told, numbers=numbers, looked_at=looked)
    repeated = sum(count for count in Counter(training.content.values()).values() if count > 1)
    looks = 1 + len(training.variants) / len(training.content)
    as_within = _chance(len(twins), total, looks * (repeated + 3), len(training.content)) > CHANCE
    if as_within and not are_told_apart(training):
        return Verdict(
            Outcome.PASS,
            f"{len(twins)} validation samples equal a training sample, no more than equal ones occur within "
            f"the training data ({repeated})",
            numbers=numbers,
            looked_at=looked,
        )
    index, same = twins[0]
    message = (
        f"{len(twins)} of {total:,} validation samples ({100 * len(twins) / total:.3g} %) are training samples too: "
        f"validation sample {index} is training sample {same}"
    )
    if as_within:
        message += "; training samples repeat as often, so the data was repeated before it was split"
    finding = Finding(message, help="split by row (or by patient, speaker, day) before anything else", numbers=numbers)
    figures = pairs("validation sample and its training twin", validation.kept, training.kept, twins)
    outcome = Outcome.WARN if as_within else Outcome.FAIL
    figures = (*figures, _table(twins))
    return Verdict(outcome, message, findings=(finding,), figures=figures, numbers=numbers, looked_at=looked)


def _by_place(places: SharedPlaces, share: float) -> Verdict:
    told = f"{places.shared} of {places.held_out:,} places that `{places.name}` picks for validation"
    if places.shared <= share * places.held_out:
        return Verdict(Outcome.PASS, f"{told} are picked for training", looked_at=places.held_out)
    message = f"{told} are picked for training too, in the same data: their labels are known to the model"
    finding = Finding(message, help="make one mask the complement of the other, or draw both from one permutation")
    return Verdict(Outcome.FAIL, message, findings=(finding,), looked_at=places.held_out)


def _in_metric(counted: TrainedPlaces, share: float) -> Verdict:
    if counted.shared <= share * counted.evaluated:
        told = f"{counted.metric} counts none of the places of the same data that the training loss goes by"
        return Verdict(Outcome.PASS, told, looked_at=1)
    message = (
        f"{counted.metric} counts {counted.evaluated:,} places of the same data, and {counted.shared:,} of them are "
        "trained on: their labels are known to the model"
    )
    finding = Finding(message, counted.place, help="make one mask the complement of the other")
    return Verdict(Outcome.FAIL, message, findings=(finding,), looked_at=counted.evaluated)


def _twins(training: Split, validation: Split) -> list[tuple[int, int]]:
    """The validation samples that are in the training data too, each with the first that it equals there."""
    first_with: dict[bytes, int] = {}
    for index, content in training.content.items():
        first_with.setdefault(content, index)
    for content, index in training.variants.items():
        first_with.setdefault(content, index)
    return sorted((index, first_with[same]) for index, same in validation.content.items() if same in first_with)


def _chance(shared: int, total: int, repeated: float, size: int) -> float:
    """The probability of so many, if a new sample has a twin here as often as one of these has among the rest."""
    rate = min(0.999, repeated / size)
    log = [
        math.lgamma(total + 1) - math.lgamma(k + 1) - math.lgamma(total - k + 1)
        + k * math.log(rate) + (total - k) * math.log1p(-rate)
        for k in range(shared, min(total, shared + 400) + 1)
    ]  # fmt: skip
    return sum(math.exp(value) for value in log)


def _table(twins: list[tuple[int, int]]) -> Figure:
    rows = [[mine, theirs] for mine, theirs in twins[:20]]
    return Figure("table", "the first of them", {"columns": ["validation sample", "training sample"], "rows": rows})
