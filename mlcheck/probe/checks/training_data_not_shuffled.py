"""Judges the order of the training data: sorted by class, or the same in every epoch."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from torch import Tensor

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.data.labels import Labels
from mlcheck.probe.measure.data.passes import Field, Passes
from mlcheck.probe.measure.loss.first_loss import FirstLoss
from mlcheck.probe.measure.training.rehearsal import Rehearsal
from mlcheck.probe.measure.tree import leaves

SIGMAS = 4.0
FEW_BATCHES = 5
FEW_SAMPLES = 100
SORTED = 0.5


def check(
    passes: Passes, labels: Labels | None, rehearsal: Rehearsal | None = None, first: FirstLoss | None = None
) -> Verdict:
    training = passes.training
    if rehearsal and rehearsal.steps and not rehearsal.losses:
        return Verdict(Outcome.SKIP, reason="no step calls backward: nothing learns from the order")
    batches = len(training.digests)
    if batches < FEW_BATCHES:
        return Verdict(Outcome.SKIP, reason=f"a pass has {plural(batches, 'batch')}: there is little to shuffle")
    if not training.fields:
        return Verdict(Outcome.SKIP, reason="no tensor is seen in a batch before it is used")
    many = min(len(training.digests), len(passes.again.digests))
    same = training.digests[:many] == passes.again.digests[:many] and len(set(training.digests)) > 1
    for use in labels.uses if labels else ():
        known = training.fields.get(use.field)
        if use.one_a_sample and known and len(known.labels) >= FEW_SAMPLES and (runs := _runs(known))[2] < -SIGMAS:
            return _ordered(known, runs, same, batches)
    numbers = [training.fields[name] for name in (first.targets if first else ()) if name in training.fields]
    for known in numbers:
        if _is_sorted(known.labels) and not _continues(training.kept):
            return _rising(known, same, batches)
    if same and passes.renewed:
        return Verdict(Outcome.PASS, "the second epoch goes over other samples than the first", looked_at=many)
    if same and passes.stream:
        return Verdict(
            Outcome.INCONCLUSIVE,
            reason=f"a stream gives the same {many} batches in the same order: is it shuffled at its source?",
        )
    if same and _continues(training.kept):
        return Verdict(
            Outcome.INCONCLUSIVE,
            reason=f"each batch goes on where the one before it ended ({many} batches), as they must where a model "
            "carries its state from batch to batch",
        )
    if same and _is_text(training.fields):
        return Verdict(
            Outcome.INCONCLUSIVE,
            reason=f"tokens without labels come in the same order ({many} batches), as they must where a model carries "
            "its state from batch to batch",
        )
    if same and passes.shuffled_elsewhere:
        return Verdict(
            Outcome.INCONCLUSIVE,
            reason=f"two passes give the same {many} batches in the same order, and another loader of the program has "
            "these samples in a random one: a curriculum goes over to that",
        )
    if same:
        message = f"two passes over the training data give the same {many} batches in the same order"
        finding = Finding(message, help="shuffle=True, or a sampler that draws anew in every epoch")
        return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=many)
    return Verdict(Outcome.PASS, f"a second pass gives other batches than the first ({many} compared)", looked_at=many)


def _is_sorted(values: list[float]) -> bool:
    """Whether many numbers, most of them different, only rise or only fall."""
    many = len(values) >= FEW_SAMPLES and 2 * len(set(values)) >= len(values)
    return many and (values == sorted(values) or values == sorted(values, reverse=True))


def _rising(known: Field, same: bool, batches: int) -> Verdict:
    again = ", in the same order in every pass" if same else ""
    message = (
        f"the target `{known.place}` only {'rises' if known.labels[0] < known.labels[-1] else 'falls'} along a pass of "
        f"{len(known.labels):,} samples, from {known.labels[0]:.4g} to {known.labels[-1]:.4g}{again}"
    )
    finding = Finding(message, help="shuffle=True: each batch pulls the model towards its own part of the range")
    return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=batches)


def _continues(batches: list[Any]) -> bool:
    """Whether targets are the inputs a step further on, and the next batch's inputs go on where they end."""
    if len(batches) < FEW_BATCHES:
        return False
    whole = [{name: leaf for name, leaf in leaves(batch) if leaf.ndim > 1 and leaf.numel()} for batch in batches]
    names = [name for name in whole[0] if all(name in tensors for tensors in whole)]
    return any(
        _shifted(whole[0][begins], whole[0][ends], time)
        and all(
            _equal(before[ends].select(time, -1), after[begins].select(time, 0)) for before, after in pairwise(whole)
        )
        for ends in names
        for begins in names
        for time in (0, 1)
    )


def _shifted(one: Tensor, other: Tensor, time: int) -> bool:
    steps = one.shape[time] - 1
    if one.shape != other.shape or not steps or _equal(one, other):
        return False
    return _equal(one.narrow(time, 1, steps), other.narrow(time, 0, steps))


def _equal(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and bool((one == other).all())


def _is_text(fields: dict[str, Field]) -> bool:
    """Whether a batch is one tensor of whole numbers, whose targets are the numbers after them."""
    return len(fields) == 1 and all("int" in one.dtype and len(one.shape) > 1 for one in fields.values())


def _runs(known: Field) -> tuple[int, float, float]:
    """How often the label changes from one sample to the next, how often it would, and the distance in sigmas.

    Under a random order the number of changes is nearly normal (Barton and David's moments for multisets).
    """
    labels = known.labels
    count = len(labels)
    sizes: dict[float, int] = {}
    for label in labels:
        sizes[label] = sizes.get(label, 0) + 1
    changes = sum(a != b for a, b in pairwise(labels))
    two, three = sum(n**2 for n in sizes.values()), sum(n**3 for n in sizes.values())
    expected = count - two / count
    variance = (two * (two + count * (count + 1)) - 2 * count * three - count**3) / (count**2 * (count - 1))
    return changes, expected, (changes - expected) / math.sqrt(variance) if variance > 0 else 0.0


def _ordered(known: Field, runs: tuple[int, float, float], same: bool, batches: int) -> Verdict:
    changes, expected, sigmas = runs
    again = ", in the same order in every pass" if same else ""
    message = (
        f"`{known.place}` changes {changes} times along a pass of {len(known.labels):,} samples; in a random order it "
        f"would {expected:,.0f} times ({abs(sigmas):.0f} standard deviations){again}"
    )
    finding = Finding(
        message,
        help="shuffle=True: batches of one class pull the model to and fro",
        numbers={"changes": float(changes), "expected": expected},
    )
    figure = Figure(
        "curves",
        f"`{known.place}` along a pass",
        {
            "series": [{"name": known.place, "y": known.labels[:: max(1, len(known.labels) // 400)]}],
            "x_label": "sample",
        },
    )
    bad = changes < SORTED * expected
    return Verdict(
        Outcome.FAIL if bad else Outcome.WARN, message, findings=(finding,), figures=(figure,), looked_at=batches
    )
