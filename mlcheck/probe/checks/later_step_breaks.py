"""Judges whether the training goes on: what breaks at step 31 is found at step 31, not at midnight."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.short_run import STEPS, ShortRun


def check(run: ShortRun) -> Verdict:
    if run.error:
        message = f"training step {run.steps + 1} raises {run.error}, after {run.steps} steps that went well"
        return Verdict(
            Outcome.FAIL,
            message,
            findings=(Finding(message, run.place),),
            figures=run.account.figure() if run.account else (),
            looked_at=run.steps,
            traceback=run.traceback,
        )
    epochs = f", {run.epochs:.1f} epochs" if run.epochs else ""
    summary = f"{run.steps} training steps{epochs} went through"
    if run.steps < STEPS and run.epochs < 1:
        return Verdict(
            Outcome.PASS, f"{summary} in the time there was", numbers={"steps": float(run.steps)}, looked_at=run.steps
        )
    return Verdict(Outcome.PASS, summary, numbers={"steps": float(run.steps)}, looked_at=run.steps)
