"""Judges whether gradients that are added up over several batches are exchanged once, before the update."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.measurement import NotMeasured
from mlcheck.probe.measure.ranks.run import RankRun, location
from mlcheck.probe.measure.ranks.weights import Step, Wrapped


def check(run: RankRun) -> Verdict:
    if run.framework:
        raise NotMeasured(f"{run.framework} decides when gradients are exchanged")
    steps = [step for step in run.ranks[0].of(Step) if step.optimizer >= 0]
    wrapped = run.ranks[0].of(Wrapped)
    if len(wrapped) != 1 or not all(step.backwards == step.batches for step in steps):
        raise NotMeasured("gradients are not added up over the batches of one wrapped model")
    every = min((step.batches for step in steps), default=1)
    if every < 2:
        raise NotMeasured("every batch has its own update")
    calls = [next(iter(step.calls.values())) for step in steps]
    if any(call.averaged < step.batches for call, step in zip(calls, steps)):
        told = f"{every} batches make one update, and the ranks exchange {max(c.averaged for c in calls)} gradient"
        return Verdict(Outcome.PASS, told, looked_at=len(steps))
    message = f"{every} batches make one update, and the ranks exchange their gradients after each of them"
    finding = Finding(
        message,
        location(steps[0].place, run.place),
        help="run all but the last forward and backward pass of an update under `with model.no_sync():`",
    )
    return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=len(steps))
