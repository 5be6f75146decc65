"""Judges whether a program that trains in float16 stays within its range."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.precision.half_precision import HalfPrecision

_LOST = 0.01
_CONSTANT = "use torch.finfo(scores.dtype).min, or -inf, in the tensor's own type"
_GUARD = "add it in float32 (`x.float() + eps`), take a larger one (1e-4), or a loss that takes logits"
_RANGE = "scale the values down, normalise before this line, or leave autocast for it: float16 ends at 65,504"


def check(seen: HalfPrecision) -> Verdict:
    later = f"after {plural(seen.trained, 'training step')} in float32, " if seen.trained else ""
    if seen.error:
        told = f"{later}in {seen.dtype} the training step raises, in float32 it does not: {seen.error}"
        help_ = _CONSTANT if "overflow" in seen.error else "leave autocast for this line, or cast to one type"
        return Verdict(Outcome.FAIL, told, findings=(Finding(told, seen.place, help=help_),), looked_at=1)
    if seen.overflow:
        told = f"{later}in {seen.dtype} the result overflows: {seen.overflow}"
        return Verdict(Outcome.FAIL, told, findings=(Finding(told, seen.place, help=_RANGE),), looked_at=1)
    if seen.guard:
        told = f"{seen.guard} is 0 in float16, as all below 3e-8: it guards nothing"
        finding = Finding(told, seen.guard_place, help=_GUARD)
        return Verdict(Outcome.WARN, told, findings=(finding,), looked_at=1)
    lost = f"{seen.lost:.1%} of {plural(seen.gradients, 'gradient')} are too small for it"
    if not seen.scales and seen.lost > _LOST:
        told = f"{lost}, and no GradScaler scales the loss"
        finding = Finding(told, seen.place, help="scale the loss with torch.amp.GradScaler, or compute in bfloat16")
        return Verdict(Outcome.WARN, told, findings=(finding,), looked_at=1)
    summary = f"a training step in {seen.dtype} raises nothing and overflows nowhere"
    return Verdict(Outcome.PASS, f"{summary}; {lost}" if seen.gradients else summary, looked_at=1)
