"""Judges whether the same validation sample is the same when it is read again."""

from __future__ import annotations

import math
from collections.abc import Iterable

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.data.sample_tensors import equal_share
from mlcheck.probe.measure.data.samples import Samples
from mlcheck.probe.measure.data.split import Split
from mlcheck.probe.measure.names import listed, part_of

ALL_BUT_A_FEW = 0.9
HELP = "give the validation data its own transform without random parts"


def check(seen: Samples) -> Verdict:
    split = seen.validation
    if split is None or not split.read_twice:
        return Verdict(Outcome.SKIP, reason="there is no validation data that can be asked for a sample")
    training = f"; training samples vary in {_parts(seen.training.varying)}" if seen.training.varying else ""
    if not split.varying:
        return Verdict(
            Outcome.PASS,
            f"{plural(split.read_twice, 'validation sample')} read twice: bit for bit the same when read "
            f"again{training}",
            looked_at=split.read_twice,
        )
    if equal_share(split.digests.values()) > ALL_BUT_A_FEW:
        reason = "whatever index is asked for, a validation sample is drawn at random: none is there to be augmented"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, looked_at=split.read_twice)
    if moved := split.flips.moved_along():
        picture, mask, how, count = moved
        message = (
            f"validation samples are augmented: {_parts((picture, mask))} are {how}, together, between two reads of "
            f"one sample ({count} of {split.read_twice})"
        )
        finding = Finding(message, help=HELP)
        return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=split.read_twice)
    if len(split.varying) > 1 and len(split.varying) == len(split.shapes):
        reason = "every part of a validation sample is drawn anew at each read: views of one thing, or a random task"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, looked_at=split.read_twice)
    if split.drawn and all(name in split.drawn or _is_a_number(split, name) for name in split.varying):
        parts = f"{_parts(split.drawn)} of a validation sample"
        reason = f"{parts} are another sample's at each read: pairs or triplets drawn at random"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, looked_at=split.read_twice)
    if all(_is_an_id(split, name) or split.redrawn.is_anew(name) for name in split.varying):
        reason = (
            f"{_parts(split.varying)} is whole numbers drawn at each read: negatives, or a step of a noise schedule"
        )
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, looked_at=split.read_twice)
    message = (
        f"validation samples differ between two reads in {_parts(split.varying)}: "
        "they are augmented, or noise is added to them"
    )
    finding = Finding(message, help=HELP)
    return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=split.read_twice)


def _is_a_number(split: Split, name: str) -> bool:
    """One a sample: what says of a pair whether its two belong together is another's with each pair."""
    return all(math.prod(shape) == 1 for shape in split.shapes[name])


def _is_an_id(split: Split, name: str) -> bool:
    read = [sample[name] for sample in split.in_order if name in sample]
    return bool(read) and _is_a_number(split, name) and not any(one.is_floating_point() for one in read)


def _parts(names: Iterable[str]) -> str:
    return listed([part_of("sample", name) for name in names])
