"""Judges whether batches whose gradients are added up count as the parts of one large batch would."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.drive import inconclusive
from mlcheck.probe.measure.training.accumulated import Accumulated

_EXACT = 1e-7
_MATTERS = 0.02


def check(seen: Accumulated) -> Verdict:
    every = len(seen.weights)
    if seen.noise > _EXACT:
        raise inconclusive("two gradients of the same batch differ: the step draws random numbers")
    if seen.rest > _EXACT:
        raise inconclusive("the samples of a batch depend on one another, so no batches add up to a larger one")
    mean = sum(seen.weights) / every
    if all(abs(weight / mean - 1) < _MATTERS for weight in seen.weights):
        told = f"in float64, {every} batches added up step as one batch of all their samples would"
        return Verdict(Outcome.PASS, told, looked_at=every)
    if abs(sum(seen.weights) - 1) > _EXACT:
        raise inconclusive("something besides the loss scales the gradients, such as clipping of the program's own")
    weights = ", ".join(f"{weight:.3g}" for weight in seen.weights)
    message = f"{every} batches are added up alike, but one large batch would weigh them {weights}"
    help_ = "divide the summed loss of each by the count of all of them (tokens, boxes), not by a count of its own"
    finding = Finding(message, seen.place, help=help_)
    return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=every)
