"""Judges what enters cross_entropy: it wants logits, and softmaxes them itself."""

from __future__ import annotations

import math

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.loss.held_out_losses import HeldOutLosses
from mlcheck.probe.measure.loss.loss_inputs import LossInput, LossInputs

_WHY = "cross_entropy applies log-softmax itself: give it the logits"


def check(inputs: LossInputs, held_out: HeldOutLosses | None) -> Verdict:
    calls = inputs.of("cross_entropy")
    twice = [call for kind in ("cross_entropy", "nll_loss") for call in inputs.of(kind) if call.scores_by]
    if twice:
        return _before_log_softmax(twice)
    if not calls:
        return Verdict(Outcome.SKIP, reason="no cross_entropy was computed in the training steps")
    faults = tuple(_fault(call) for call in calls if _squashed(call))
    worst = min((call.row_sum_error for call in calls), default=math.inf)
    if faults:
        return Verdict(Outcome.FAIL, faults[0].message, findings=faults, looked_at=len(calls))
    if held_out and held_out.of_chances:
        return _in_validation_alone(held_out)
    clipped = tuple(_clipped(call) for call in calls if call.clipped)
    if clipped:
        return Verdict(Outcome.WARN, clipped[0].message, findings=clipped, looked_at=len(calls))
    return Verdict(
        Outcome.PASS,
        f"the inputs of cross_entropy are logits: they range from {min(c.low for c in calls):.3g} to "
        f"{max(c.high for c in calls):.3g}" + ("" if worst > 1 else f", rows sum to 1 ± {worst:.2g} at closest"),
        looked_at=len(calls),
    )


def _in_validation_alone(seen: HeldOutLosses) -> Verdict:
    message = (
        "in validation the rows that enter cross_entropy are chances (each sums to 1), in training they are logits: "
        "the two losses do not compare, and validation's hardly moves"
    )
    finding = Finding(message, seen.of_chances[0], help=_WHY)
    return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=seen.calls)


def _before_log_softmax(calls: list[LossInput]) -> Verdict:
    findings = tuple(
        Finding(
            f"the scores that log_softmax turns into the input of {call.kind} come from {call.scores_by}: "
            f"{_cost(call)}",
            call.place,
            help="give log_softmax what the last linear layer says",
        )
        for call in calls
    )
    worse = any(call.scores_by != "relu" for call in calls)
    return Verdict(
        Outcome.FAIL if worse else Outcome.WARN, findings[0].message, findings=findings, looked_at=len(calls)
    )


def _cost(call: LossInput) -> str:
    if call.scores_by == "relu":
        return "no class can be voted below 0, and one whose score is 0 gets no gradient"
    return f"with {plural(call.classes, 'class')} the loss cannot fall below {_plateau(call):.3g}"


def _plateau(call: LossInput) -> float:
    return math.log(1 + (call.classes - 1) / math.e)


def _clipped(call: LossInput) -> Finding:
    message = (
        "the input of cross_entropy comes from relu: no class can be voted below 0, and one whose logit is 0 gets no "
        "gradient"
    )
    return Finding(message, call.place, help="leave the last layer without an activation")


def _squashed(call: LossInput) -> bool:
    """Made by softmax or sigmoid; or rows that are distributions on real and on scrambled input alike."""
    if call.made_by in ("softmax", "sigmoid"):
        return True
    return call.made_by != "log_softmax" and call.distributions and call.distributions_when_scrambled is True


def _fault(call: LossInput) -> Finding:
    plateau = _plateau(call)
    if call.made_by:
        what = f"the input of cross_entropy comes from {call.made_by}"
    else:
        what = f"the rows entering cross_entropy sum to 1 ± {call.row_sum_error:.1g}, on scrambled input too"
    return Finding(
        f"{what}: with {plural(call.classes, 'class')} the loss cannot fall below {plateau:.3g}",
        call.place,
        help=_WHY,
        numbers={"plateau": plateau, "classes": float(call.classes), "row sum error": call.row_sum_error},
    )
