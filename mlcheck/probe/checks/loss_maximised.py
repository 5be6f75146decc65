"""Judges whether backward is called on a loss or on its negative."""

from __future__ import annotations

import math

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.loss.first_loss import FirstLoss
from mlcheck.probe.measure.loss.lower_bound import LowerBound
from mlcheck.probe.measure.loss.sinking import SHIFT, Sinking
from mlcheck.probe.measure.training.short_run import ShortRun

FEW = 20
FAR = 2.0
ABYSS = 1e3
ROUNDING = 1e-2


def check(seen: FirstLoss, bound: LowerBound | None, sinking: Sinking | None, run: ShortRun | None) -> Verdict:
    judged = [loss for loss in seen.losses if loss.pull is not None]
    raised = [loss for loss in judged if loss.pull is not None and loss.pull < 0]
    if not raised and bound and run and (finding := _bottomless(bound, run)):
        return Verdict(Outcome.WARN, finding.message, findings=(finding,), looked_at=bound.layers)
    if not raised and sinking and run and (finding := _sinks(sinking, run)):
        return Verdict(Outcome.WARN, finding.message, findings=(finding,), looked_at=sinking.layers)
    if not judged:
        return Verdict(Outcome.SKIP, reason="no loss of torch.nn.functional feeds the backward pass")
    if not raised:
        return Verdict(
            Outcome.PASS,
            "what backward is called on rises with "
            f"{'the loss' if len(judged) == 1 else f'each of {len(judged)} losses'}",
            looked_at=len(judged),
        )
    unopposed = [loss for loss in raised if loss.alone] if seen.backwards == 1 else []
    if unopposed and len(raised) < len(judged):
        findings = tuple(
            Finding(
                f"{loss.kind} is maximised (derivative {loss.pull:.3g}), and {loss.alone} parameters serve it alone: "
                "nothing learns to lower it, as an adversary would",
                loss.place,
                help="look at the sign of its weight",
            )
            for loss in unopposed
        )
        return Verdict(Outcome.WARN, findings[0].message, findings=findings, looked_at=len(judged))
    if len(raised) < len(judged) or seen.backwards > 1:
        names = ", ".join(loss.kind for loss in raised)
        return Verdict(
            Outcome.INCONCLUSIVE,
            reason=f"{names} is maximised beside other losses, as adversarial training does on purpose",
        )
    findings = tuple(
        Finding(
            f"backward is called on the negative of {loss.kind} (derivative {loss.pull:.3g}): training raises it",
            loss.place,
            help="minimise the loss itself: the optimizer goes downhill",
        )
        for loss in raised
    )
    return Verdict(Outcome.FAIL, findings[0].message, findings=findings, looked_at=len(judged))


def _bottomless(bound: LowerBound, run: ShortRun) -> Finding | None:
    """A loss that can fall for ever, and does: below zero, by more than it began with, and ever faster."""
    losses = _finite(run)
    if not bound.falls or len(losses) < FEW:
        return None
    third = len(losses) // 3
    start, middle, end = (sum(part) / third for part in (losses[:third], losses[third:-third], losses[-third:]))
    follows = end < 0 and losses[0] - losses[-1] > FAR * abs(losses[0]) and middle - end > start - middle
    if not follows and min(losses) > -ABYSS * max(abs(losses[0]), 1e-3):
        return None
    fall = bound.falls[0]
    return Finding(
        f"the loss has no lower bound, and training lowers it without end: from {losses[0]:.3g} to {min(losses):.3g} "
        f"in {len(losses)} steps, ever faster; a term that should be minimised is subtracted, or has the wrong sign "
        f"(with `{fall.layer}` {fall.factors[-1]:g} times as large the loss is {fall.losses[-1]:.3g})",
        bound.place,
        help="look at the sign of each term: a divergence, a squared distance or a penalty is added",
        numbers={"first": losses[0], "last": min(losses)},
    )


def _sinks(seen: Sinking, run: ShortRun) -> Finding | None:
    """A loss that falls as far as an output is moved, sample by sample, and does in training.

    A fall under so large a move that is next to nothing beside that of training is one of rounding.
    """
    losses = _finite(run)
    if len(losses) < FEW or losses[-1] > 0 or losses[0] - losses[-1] < abs(losses[0]):
        return None
    sink = next((one for one in seen.found if one.fall > ROUNDING * (losses[0] - min(losses))), None)
    if sink is None:
        return None
    return Finding(
        f"the loss has no lower bound, and training lowers it without end: from {losses[0]:.3g} to {min(losses):.3g} "
        f"in {len(losses)} steps. It falls by {sink.fall:.3g} when {SHIFT:g} is {sink.verb} what `{sink.layer}` gives, "
        f"in {sink.falling} of {sink.asked} samples tried, and rises in none: a term has the wrong sign, or scores are "
        "not normalised (log_softmax)",
        seen.place,
        help="give the likelihood normalised scores; look at the sign of each term",
        numbers={"first": losses[0], "last": min(losses), "fall": sink.fall},
    )


def _finite(run: ShortRun) -> list[float]:
    return run.losses[: next((k for k, loss in enumerate(run.losses) if not math.isfinite(loss)), None)]
