"""Judges whether the training goes on: what breaks at step 31 is found at step 31, not at midnight."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.training.last_batch import LastBatch
from mlcheck.probe.measure.training.short_run import STEPS, ShortRun


def check(run: ShortRun, last: LastBatch | None) -> Verdict:
    if last and last.error and run.error in ("", last.error):
        return _at_the_end(last)
    if run.error:
        message = f"training step {run.steps + 1} raises {run.error}, after {run.steps} steps that went well"
        message = f"{run.why}: {message}" if run.why else message
        return Verdict(
            Outcome.FAIL,
            message,
            findings=(Finding(message, run.place),),
            figures=run.account.figure() if run.account else (),
            looked_at=run.steps,
            traceback=run.traceback,
        )
    epochs = f", {run.epochs:.1f} epochs" if run.epochs else ""
    summary = f"{plural(run.steps, 'training step')}{epochs} went through"
    if run.steps < STEPS and run.epochs < 1:
        return Verdict(
            Outcome.PASS, f"{summary} in the time there was", numbers={"steps": float(run.steps)}, looked_at=run.steps
        )
    return Verdict(Outcome.PASS, summary, numbers={"steps": float(run.steps)}, looked_at=run.steps)


def _at_the_end(last: LastBatch) -> Verdict:
    samples = f"{last.samples} sample{'s' * (last.samples != 1)}"
    message = (
        f"the last batch of an epoch has {samples} where others have {last.whole}, and a training step on so many "
    )
    message += f"raises {last.error}"
    finding = Finding(message, last.place, help="drop_last=True for the training data, or a batch size that divides it")
    return Verdict(Outcome.FAIL, message, findings=(finding,), looked_at=1, traceback=last.traceback)
