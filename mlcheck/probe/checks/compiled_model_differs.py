"""Judges whether the compiled and the exported model compute what the model computes."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.precision.compiled import Compiled

_EXACT = 1e-9


def check(seen: Compiled) -> Verdict:
    ways = [("torch.compile", seen.distance, seen.error)]
    ways += [("torch.export", seen.exported, seen.exported_error)] if seen.exports else []
    for way, distance, error in ways:
        if not error and not distance <= _EXACT:
            message = f"after {way} the output of `{seen.model}` differs by {distance:.2g} (relative, in float64)"
            help_ = "look for branches on torch.compiler.is_compiling() and for state that Python code changes"
            return Verdict(Outcome.FAIL, message, findings=(Finding(message, help=help_),), looked_at=len(ways))
    for way, _, error in ways:
        if error:
            message = f"{way} does not take `{seen.model}`: {error}"
            help_ = "rewrite the line it names, or leave that part out: torch.compiler.disable"
            return Verdict(Outcome.WARN, message, findings=(Finding(message, help=help_),), looked_at=len(ways))
    told = f"in float64, `{seen.model}` computes the same after {' and after '.join(way for way, _, _ in ways)}"
    return Verdict(Outcome.PASS, told, looked_at=len(ways))
