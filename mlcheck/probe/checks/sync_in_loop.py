"""Judges how often a training step makes Python wait for the device, and where."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.speed.step_calls import Call, StepCalls

_LEFT_TO_YOU = 2
_LEFT_TO_ANYONE = 3
_TO_PYTHON = {".item()", ".tolist()", ".cpu()", ".numpy()", "as an array", "float()", "int()", "printed"}
_CHOOSE = {"indexed by a mask", "masked_select", "nonzero", "argwhere"}
_SHOWN, _IN_A_SENTENCE = 5, 3


def check(seen: StepCalls) -> Verdict:
    times = sum(call.times for call in seen.waits)
    numbers = {"waits in a step": times}
    evidence = f"a step reads from the device {_often(times)}"
    told = ""
    if seen.device == "cpu":
        told = "; counted as they would be on a device, as this ran on the CPU, where they cost nothing"
    if not (_written_for_a_device(seen) or _put_on_one(seen)):
        where = f": {_list(seen.waits)}" if times else ""
        return Verdict(Outcome.PASS, f"{evidence}{where}{told}", numbers=numbers, looked_at=1)
    first, *others = seen.waits
    where = "waits" if seen.device != "cpu" else "would wait on a GPU (here, on the CPU, it does not)"
    message = (
        f"every step {where} {_often(times)} until the device has finished, to read numbers: "
        f"{_list(seen.waits, _IN_A_SENTENCE)}; "
        "meanwhile nothing is queued, and the device idles after it"
    )
    finding = Finding(message, first.place, _help(seen), related=tuple(call.place for call in others[:_SHOWN]))
    return Verdict(Outcome.WARN, f"{evidence}{told}", findings=(finding,), numbers=numbers, looked_at=1)


def _written_for_a_device(seen: StepCalls) -> bool:
    return seen.meant and sum(call.times for call in seen.waits) >= _LEFT_TO_YOU


def _put_on_one(seen: StepCalls) -> bool:
    """By a framework, for a program that names no device: only what it reads into Python counts then, no mask."""
    return seen.placed and sum(call.times for call in seen.waits if call.what in _TO_PYTHON) >= _LEFT_TO_ANYONE


def _help(seen: StepCalls) -> str:
    if all(call.what in _CHOOSE for call in seen.waits):
        return (
            "compute for all and weigh by the mask, `(loss * mask).sum() / mask.sum()`: its shape is known beforehand"
        )
    return (
        "add up `loss.detach()` on the device, and read it every n steps; return tensors where the framework takes them"
    )


def _often(times: float) -> str:
    return "never" if not times else "once" if times == 1 else f"{times:.3g} times"


def _list(calls: tuple[Call, ...], shown: int = _SHOWN) -> str:
    told = [
        f"{call.what} at {call.place.path}:{call.place.line}" + (f", {call.times:.3g} times" if call.times > 1 else "")
        for call in calls
    ]
    more = len(told) - shown
    return "; ".join(told[:shown]) + (f"; and at {plural(more, 'more line')}" if more > 0 else "")
