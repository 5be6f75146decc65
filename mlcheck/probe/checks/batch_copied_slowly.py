"""Judges whether copying batches to the device is a noticeable part of a step."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.speed.batch_copy import BatchCopy
from mlcheck.probe.measure.speed.loader_place import loader_place
from mlcheck.probe.measure.speed.step_time import worth_mending

NOTICEABLE = 0.05


def check(seen: BatchCopy, *, share: float = NOTICEABLE) -> Verdict:
    copying = seen.pinned_s if seen.pins else seen.ordinary_s
    taken = copying / (copying + seen.step_s)
    rate = seen.megabytes / 1e3 / copying
    evidence = (
        f"a batch of {seen.megabytes:.3g} MB takes {1e3 * copying:.3g} ms to the device ({rate:.3g} GB/s, "
        f"{'pinned' if seen.pins else 'not pinned'}), and a step {1e3 * seen.step_s:.3g} ms"
    )
    numbers = {"copy, ms": 1e3 * copying, "pinned copy, ms": 1e3 * seen.pinned_s, "step, ms": 1e3 * seen.step_s}
    if taken < share or not worth_mending(copying, seen.batches):
        return Verdict(Outcome.PASS, evidence, numbers=numbers, looked_at=1)
    pinning = "" if seen.pins else f"; pinned, it would take {1e3 * seen.pinned_s:.3g} ms, and could overlap the step"
    message = (
        f"{evidence}: {taken:.0%} of both is copying{pinning}; without it up to {1 / (1 - taken):.2g} times as fast"
    )
    help_ = (
        "copy small types (uint8 images) and convert on the device; overlap with tensor.to(device, non_blocking=True)"
        if seen.pins
        else "DataLoader(pin_memory=True) and tensor.to(device, non_blocking=True); copy small types (uint8 images)"
    )
    finding = Finding(message, loader_place(seen.place, seen.workers), help_)
    return Verdict(Outcome.WARN, evidence, findings=(finding,), numbers=numbers, looked_at=1)
