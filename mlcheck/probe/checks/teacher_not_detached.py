"""Judges whether what is to be met, a teacher's soft targets, is left alone by the training of who has to meet it."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.loss.learnt_targets import LearntTargets
from mlcheck.probe.measure.names import listed

_HELP = "call the teacher under torch.no_grad(), and give the optimizer the student's parameters only"


def check(seen: LearntTargets) -> Verdict:
    if not seen.taught:
        told = "what the loss compares with carries no gradients of a model that only makes targets"
        return Verdict(Outcome.PASS, told, looked_at=seen.seen)
    names = f"{plural(len(seen.taught), 'parameter')} ({listed(list(seen.taught))})"
    then = (
        "the optimizer moves them towards what they are compared with, which is easier than to learn from them"
        if seen.stepped
        else "no optimizer has them, and each step keeps and computes all of it for nothing"
    )
    message = f"the target of {seen.kind} carries gradients, the only ones that {names} get: {then}"
    return Verdict(
        Outcome.WARN, message, findings=(Finding(message, seen.place, help=_HELP),), looked_at=len(seen.taught)
    )
