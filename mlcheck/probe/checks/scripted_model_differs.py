"""Judges whether the model computes as TorchScript what it computes eagerly."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.drive import inconclusive
from mlcheck.probe.measure.precision.scripted import Scripted, Way

_EXACT = 1e-9
_TRACE = "script what branches on data or sizes, or export with torch.export, which refuses such a branch"


def check(seen: Scripted) -> Verdict:
    made = [way for way in seen.ways if not way.error]
    if not made:
        raise inconclusive(
            f"torch.jit.{seen.ways[0].name} does not take `{seen.model}` as a whole: {seen.ways[0].error}"
        )
    findings = tuple(_differs(way, seen) for way in made if not way.distance <= _EXACT)
    if findings:
        return Verdict(Outcome.FAIL, findings[0].message, findings=findings, looked_at=len(made))
    findings = tuple(_refuses(way, seen) for way in made if way.refused)
    if findings:
        return Verdict(Outcome.WARN, findings[0].message, findings=findings, looked_at=len(made))
    names = " and after ".join(f"torch.jit.{way.name}" for way in made)
    return Verdict(Outcome.PASS, f"in float64, `{seen.model}` computes the same after {names}", looked_at=len(made))


def _differs(way: Way, seen: Scripted) -> Finding:
    other = f", traced with {seen.rows} rows and asked with {way.rows}," if way.name == "trace" else ""
    return Finding(
        f"after torch.jit.{way.name}{other} the output of `{seen.model}` differs by {way.distance:.2g} (relative, in "
        "float64)",
        way.places[0] if way.places else Location(),
        related=way.places[1:],
        help=_TRACE if way.name == "trace" else "look for branches on torch.jit.is_scripting()",
    )


def _refuses(way: Way, seen: Scripted) -> Finding:
    return Finding(
        f"after torch.jit.{way.name} with {seen.rows} rows, `{seen.model}` raises {way.refused}, which it takes as it "
        "is",
        way.places[0] if way.places else Location(),
        related=way.places[1:],
        help=_TRACE,
    )
