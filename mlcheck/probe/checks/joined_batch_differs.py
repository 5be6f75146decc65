"""Judges whether a step on several ranks is the step of one process on their joined batch."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.drive import inconclusive
from mlcheck.probe.measure.measurement import NotMeasured
from mlcheck.probe.measure.ranks.run import JoinedStep, RankRun

_EXACT = 1e-9
_MATTERS = 0.02


def check(run: RankRun) -> Verdict:
    steps = [rank.of(JoinedStep)[0] for rank in run.ranks if rank.of(JoinedStep)]
    if len(steps) < len(run.ranks):
        raise NotMeasured("the program runs its own loop, which cannot be given a joined batch")
    world, step = len(steps), max(steps, key=lambda one: one.averaged)
    if step.error:
        raise inconclusive(f"no step in float64 to compare: {step.error}")
    if step.noise > _EXACT:
        raise inconclusive("two gradients of the same batch differ: the step draws random numbers")
    if step.averaged > _EXACT:
        message = f"the gradient of a rank is not the mean of all {world}: it differs by {step.averaged:.2g} (relative)"
        help_ = "let every forward and backward pass of the step go through the wrapped model"
        return Verdict(Outcome.FAIL, message, findings=(Finding(message, run.place, help=help_),), looked_at=world)
    if step.rest > _EXACT:
        raise inconclusive(
            "the gradient of the joined batch is no sum of the ranks' own: the samples of a batch depend on one another"
        )
    numbers = {f"rank {rank}": weight for rank, weight in enumerate(step.weights)}
    if all(abs(weight * world - 1) < _MATTERS for weight in step.weights):
        told = f"in {step.dtype}, the gradient of {world} ranks is that of one process on their joined batch"
        return Verdict(Outcome.PASS, told, looked_at=world, numbers=numbers)
    finding = _weighted(step.weights, run)
    return Verdict(Outcome.WARN, finding.message, findings=(finding,), looked_at=world, numbers=numbers)


def _weighted(weights: tuple[float, ...], run: RankRun) -> Finding:
    world = len(weights)
    if all(abs(weight - 1) < _MATTERS for weight in weights):
        message = (
            f"the loss sums over the batch, and ranks average: on {world} ranks the gradient is {world} times smaller"
        )
        return Finding(message, run.place, help="take the mean over the batch, or multiply the loss by the world size")
    told = ", ".join(f"{weight:.3g}" for weight in weights)
    message = (
        f"the ranks count alike, but one process would weigh their batches {told}: each divides by a count of its own"
    )
    help_ = "divide by the count of all ranks (all_reduce it) and multiply by the world size"
    return Finding(message, run.place, help=help_)
