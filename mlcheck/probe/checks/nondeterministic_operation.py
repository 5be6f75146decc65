"""Judges whether a program that asks for determinism uses an operation that has none."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.training.determinism import Determinism

_HELP = "take an operation that PyTorch lists as deterministic, or allow this one with warn_only=True and say so"


def check(seen: Determinism) -> Verdict:
    if seen.operations:
        findings = tuple(
            Finding(f"{name} has no deterministic implementation on {seen.device}", place, help=_HELP)
            for name, place in seen.operations
        )
        told = f"{findings[0].message}: torch.use_deterministic_algorithms(True) raises here"
        return Verdict(Outcome.WARN, told, findings=findings, looked_at=1)
    told = f"under torch.use_deterministic_algorithms(True) no operation of a step raises on {seen.device}"
    if seen.device == "cpu" and seen.for_gpu:
        reason = f"{told}; those that do on a GPU are others: run this where there is one"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, looked_at=1)
    return Verdict(Outcome.PASS, told, looked_at=1)
