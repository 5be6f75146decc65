"""Judges whether the model computes the same on channels-last memory."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.precision.memory_format import MemoryFormats

_EXACT = 1e-9


def check(seen: MemoryFormats) -> Verdict:
    if seen.error:
        message = f"on channels-last memory `{seen.model}` raises {seen.error}"
        finding = Finding(message, seen.place, help="use reshape or flatten where view needs another order of memory")
        return Verdict(Outcome.FAIL, message, findings=(finding,), looked_at=1)
    if not seen.distance <= _EXACT:
        message = (
            f"the output of `{seen.model}` on channels-last memory differs by {seen.distance:.2g} (relative, float64)"
        )
        help_ = "look for as_strided, storages, data_ptr and extensions of your own, which depend on the memory layout"
        return Verdict(Outcome.FAIL, message, findings=(Finding(message, help=help_),), looked_at=1)
    return Verdict(Outcome.PASS, f"in float64, `{seen.model}` computes the same on channels-last memory", looked_at=1)
