"""Judges whether a step spends its time in computing, or in what happens once a step whatever the batch."""

from __future__ import annotations

from statistics import median

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.speed.step_calls import StepCalls
from mlcheck.probe.measure.speed.step_overhead import FACTOR, GROWS, SAME, WORTH_PASS_S, StepOverhead

_MANY = 100
_HALF = 0.5
_SMALL_S = 30e-6


def check(seen: StepOverhead, calls: StepCalls | None) -> Verdict:
    evidence = f"a step on {seen.size} samples takes {1e3 * seen.step_s:.3g} ms"
    numbers = {"step, ms": 1e3 * seen.step_s, "batch": float(seen.size)}
    if not seen.ratios:
        told = f"{evidence}, {seen.batches} of them a pass: too little to be worth a look" if seen.batches else evidence
        return Verdict(Outcome.PASS, told, numbers=numbers, looked_at=1)
    ratio, (low, high) = median(seen.ratios), seen.interval
    numbers |= {f"times as long for {FACTOR} times the batch": ratio}
    if seen.table.calls:
        numbers |= {"operations": float(seen.table.calls), "exchanging, ms": 1e3 * seen.table.exchange_s}
    evidence += f", and one on {FACTOR} times the samples takes {ratio:.2f} times as long ({low:.2f} to {high:.2f})"
    saved = seen.batches * seen.step_s * (1 - ratio / FACTOR)
    each = seen.step_s / seen.table.calls if seen.table.calls else 0.0
    if each > _SMALL_S:
        evidence += f"; its {seen.table.calls} operations take {1e6 * each:.3g} µs each: work on weights, no overhead"
    if low >= GROWS or saved < WORTH_PASS_S or each > _SMALL_S:
        return Verdict(Outcome.PASS, evidence, numbers=numbers, looked_at=1)
    if high > SAME:
        why = f"{evidence}: partly computing, partly not"
        return Verdict(Outcome.INCONCLUSIVE, evidence, why, numbers=numbers)
    finding = _finding(seen, calls, ratio)
    return Verdict(
        Outcome.WARN, evidence, findings=(finding,), figures=seen.table.figure(), numbers=numbers, looked_at=1
    )


def _finding(seen: StepOverhead, calls: StepCalls | None, ratio: float) -> Finding:
    gain = FACTOR / ratio
    times = f"{FACTOR} times the samples take {'no longer' if ratio < 1.1 else f'only {ratio:.2f} times as long'}"
    place, share = _busiest(calls)
    if share:
        message = (
            f"a step is Python and launching, not computing: {times}, and of its {_operations(calls):.0f} operations "
            f"{share:.0%} are asked for at this line, one after the other"
        )
        help_ = (
            "where it stands in a loop, do with few operations on whole tensors instead (a fused or scanned "
            "recurrence, batched matrix products), or let torch.compile fuse what it calls; with larger batches a "
            f"pass is up to {gain:.2g} times as fast"
        )
        return Finding(message, place, help_)
    message = (
        f"a batch of {seen.size} is too small to keep the machine busy: {times}, so that what a step costs is what "
        f"happens once in it; with larger batches a pass is up to {gain:.2g} times as fast"
    )
    help_ = "raise batch_size (and look at the learning rate again); where memory is short, keep it as it is"
    return Finding(message, seen.place, help_)


def _operations(calls: StepCalls | None) -> float:
    return sum(call.times for call in calls.operations) if calls else 0.0


def _busiest(calls: StepCalls | None) -> tuple[Location, float]:
    """The line that asks for most operations and its share, where they are many and it asks for most; else nothing."""
    if calls is None or not calls.operations:
        return Location(), 0.0
    first = calls.operations[0]
    share = first.times / _operations(calls)
    return (first.place, share) if first.times >= _MANY and share >= _HALF and first.place.path else (Location(), 0.0)
