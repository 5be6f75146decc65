"""Judges whether losses and gradients stay finite, and names the operation that made the first that is not."""

from __future__ import annotations

import math

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.training.hard_batches import HardBatches
from mlcheck.probe.measure.training.short_run import ShortRun

_CURES = {
    "Sqrt": "the derivative of sqrt is infinite at 0: take the square root of x + 1e-12",
    "Pow": "the derivative of a power below 1 is infinite at 0, as is that of a root of one: add a small number first",
    "Log": "the logarithm of 0 is infinite: use log_softmax or logsigmoid, or clamp its input",
    "Div": "divide by a number that cannot be 0: clamp it, or add a small number",
    "Norm": "the derivative of a norm does not exist at 0: add a small number under its root",
    "Exp": "exp overflows: subtract the largest value first (logsumexp, softmax)",
}


def check(run: ShortRun, hard: HardBatches | None) -> Verdict:
    step = run.bad_step
    if step is None and hard and hard.broken:
        message = (
            f"a batch {hard.broken[0].what} makes the loss or its gradient no finite number, with the first weights"
        )
        finding = Finding(message, help="what divides must not be 0: add a small number to a spread or a norm")
        return Verdict(Outcome.FAIL, message, findings=(finding,), looked_at=hard.batches)
    if step is None:
        return Verdict(
            Outcome.PASS,
            f"losses and gradients are finite in all of {plural(len(run.updates), 'update')}",
            looked_at=max(run.steps, 1),
        )
    update = next((u for u in run.updates if u.step == step and u.culprit), None)
    source = run.source
    scaled = source is not None and not source.during and update is not None and step < 3
    of_gradient = update and not (step < len(run.losses) and not math.isfinite(run.losses[step]))
    what = f"the gradient of `{update.culprit}`" if update and of_gradient else "the loss"
    message = f"{what} is not finite at training step {step + 1}"
    help_ = ""
    place = run.backward_place
    if source and source.from_input:
        message += ": the batch itself holds such values"
    elif source and source.what:
        message += f": it comes from {source.what}, in {source.during}"
        place = source.place if source.place.path else place
        help_ = next((cure for name, cure in _CURES.items() if name in source.what), "")
    if scaled:
        return Verdict(
            Outcome.INCONCLUSIVE, reason=f"{message}, and not when repeated: a gradient scaler starts like this"
        )
    account = run.account
    if account and account.place.path and source and source.during == "forward" and not source.from_input:
        name, assigned, _ = account.said.partition(" = ")
        message += f"; the first such value is {f'`{name}`, made by' if assigned else 'returned by'} `{account.source}`"
        place = account.place
    return Verdict(
        Outcome.FAIL,
        message,
        findings=(Finding(message, place, help=help_),),
        figures=account.figure() if account else (),
        looked_at=run.steps,
    )
