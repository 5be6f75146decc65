"""Judges whether every optimizer steps whose parameters get gradients."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.training.idle_optimizers import idleness
from mlcheck.probe.measure.training.training_steps import TrainingSteps


def check(steps: TrainingSteps) -> Verdict:
    if not steps.owns_loop or not steps.gives_optimizer:
        return Verdict(Outcome.SKIP, reason="the loop is mlcheck's own: it steps the optimizer")
    if len(steps.updates) < 2:
        return Verdict(Outcome.SKIP, reason="there are no two optimizers, of which one could be left out")
    if findings := idleness(steps):
        return Verdict(Outcome.WARN, findings[0].message, findings=findings, looked_at=steps.steps)
    told = ", ".join(f"`{name}` {count}" for name, count in steps.updates.items())
    return Verdict(
        Outcome.PASS, f"in {plural(steps.steps, 'training step')} they stepped: {told}", looked_at=steps.steps
    )
