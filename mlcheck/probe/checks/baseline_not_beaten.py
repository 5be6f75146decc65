"""Tells what simple models score on the same split, and whether the training beats the simplest of them."""

from __future__ import annotations

import math

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.data.examples import examples
from mlcheck.probe.measure.data.passes import Passes
from mlcheck.probe.measure.loss.first_loss import FirstLoss
from mlcheck.probe.measure.training.short_run import ShortRun
from mlcheck.probe.measure.validation.baselines import Baselines, baselines

LEARNED = 0.5
CLEARLY = 0.2
CERTAIN = 4.0


def check(passes: Passes, first: FirstLoss, run: ShortRun | None) -> Verdict:
    training = examples(passes.training, first)
    held_out = examples(passes.validation, first) if passes.validation else None
    found = baselines(training, held_out) if training and held_out else None
    if found is None:
        return Verdict(Outcome.SKIP, reason="there is no one target a sample beside inputs of one size in both splits")
    mine = run.accuracy if run and found.measure == "accuracy" else None
    simplest = "the commonest class" if found.measure == "accuracy" else "the mean"
    told = (
        f"{found.measure} on {plural(found.asked, 'validation sample')}: {simplest} {found.constant:.3f}, a "
        "linear model "
        f"{found.linear:.3f}, the nearest neighbour {found.neighbour:.3f}"
    )
    if run and mine is not None:
        told += f"; yours after {plural(run.steps, 'step')} {mine:.3f}"
    numbers = {"constant": found.constant, "linear": found.linear, "nearest neighbour": found.neighbour}
    figure = _figure(found, mine)
    message = _unbeaten(found, run, mine) if run else ""
    if message:
        finding = Finding(
            message,
            help="what was memorised does not carry over: compare how labels, inputs and modes differ "
            "between training and validation",
            numbers=numbers,
        )
        return Verdict(
            Outcome.WARN, message, findings=(finding,), figures=(figure,), numbers=numbers, looked_at=found.asked
        )
    reason = _open(found, run, mine)
    outcome = Outcome.INCONCLUSIVE if reason else Outcome.PASS
    return Verdict(outcome, told, reason=reason, figures=(figure,), numbers=numbers, looked_at=found.asked)


def _open(found: Baselines, run: ShortRun | None, mine: float | None) -> str:
    """Why it is not seen that the program beats what ignores the input; empty where it is."""
    if run is None or mine is None:
        return f"the {found.measure} of the program itself was not measured: compare it with {found.constant:.3f}"
    if mine > found.constant:
        return ""
    return f"after {plural(run.steps, 'step')} it is at {mine:.3f}, where the commonest class has {found.constant:.3f}"


def _unbeaten(found: Baselines, run: ShortRun, mine: float | None) -> str:
    """The training loss fell far, validation stays at what the commonest class gives, and a simple model does well."""
    if mine is None or len(run.losses) < 40 or not all(map(math.isfinite, run.losses)):
        return ""
    start, end = sum(run.losses[:5]) / 5, sum(run.losses[-10:]) / 10
    error = 2 * math.sqrt(found.constant * (1 - found.constant) / found.asked)
    name, best = found.best
    rare = found.rarest - CERTAIN * math.sqrt(found.rarest * (1 - found.rarest) / found.asked)
    if end > LEARNED * start or mine > found.constant + error or best < found.constant + CLEARLY:
        return ""
    told = f"after {plural(run.steps, 'step')} the training loss fell from {start:.3g} to {end:.3g}, but validation "
    if mine < rare:
        return f"{told}accuracy is {mine:.3f}, below any answer that ignores the input: {_opposite(run, rare)}"
    return (
        f"{told}accuracy is {mine:.3f}, no better than the commonest class ({found.constant:.3f}), where {name} has "
        f"{best:.3f}"
    )


def _opposite(run: ShortRun, rare: float) -> str:
    """Whether the training drives away from the labels, or only those of validation are others."""
    on_training = run.accuracy_on_training
    if on_training is None:
        return "a sign is wrong, or the labels of the two splits are not the same"
    if on_training < rare:
        return f"on training batches too ({on_training:.3f}): the metric compares wrongly, or the loss has a wrong sign"
    return f"on training batches it is {on_training:.3f}, so validation has its labels in another order"


def _figure(found: Baselines, mine: float | None) -> Figure:
    names = ["constant", "linear", "nearest neighbour"]
    values = [found.constant, found.linear, found.neighbour]
    if mine is not None:
        names, values = [*names, "yours, after the short run"], [*values, mine]
    return Figure("bars", f"{found.measure} on validation", {"labels": names, "values": [max(v, 0.0) for v in values]})
