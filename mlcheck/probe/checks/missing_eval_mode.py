"""Judges the modes of the modules while the user's evaluation ran, and what it changed."""

from __future__ import annotations

from collections.abc import Iterator

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.model.moved_buffers import MovedBuffers
from mlcheck.probe.measure.names import listed
from mlcheck.probe.measure.validation.after_step import AfterStep
from mlcheck.probe.measure.validation.evaluation import Evaluation
from mlcheck.probe.measure.validation.moved_weights import MovedWeights


def check(
    seen: Evaluation | None, moved: MovedBuffers | None, after: AfterStep | None, weights: MovedWeights | None
) -> Verdict:
    if seen is None:
        return (
            _within_the_round(after)
            if after
            else Verdict(Outcome.SKIP, reason="the trial has no evaluation step of its own")
        )
    findings = []
    if seen.training:
        names = listed([name for name, _ in seen.training])
        findings.append(
            Finding(
                f"{names} ran in training mode during evaluation",
                seen.training[0][1],
                help="call model.eval() before evaluating; make modules in __init__, not in forward",
            )
        )
    if seen.changed_buffers:
        names = listed(list(seen.changed_buffers))
        findings.append(Finding(f"evaluating changed {names}: running statistics must not move", seen.place))
    findings += _of_weights(seen, weights)
    if seen.training and len(findings) == 1 and seen.samples_dropout:
        told = f"in it the model is asked the same {seen.asked} times, as for Monte Carlo dropout"
        reason = f"{findings[0].message}, but {told}"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, looked_at=seen.modal)
    if findings:
        return Verdict(Outcome.FAIL, findings[0].message, findings=tuple(findings), looked_at=seen.modal)
    if moved is not None and moved.names:
        told = f"evaluating changed {listed(list(moved.names))}, and the model answers otherwise since"
        help_ = "call model.eval() before evaluating, and let the module move its statistics in training mode only"
        finding = Finding(told, Location(symbol=moved.names[0].rpartition(".")[0]), help=help_)
        return Verdict(Outcome.WARN, told, findings=(finding,), looked_at=moved.looked_at)
    if not seen.place.path:
        return Verdict(Outcome.SKIP, reason="the evaluation is mlcheck's own: it sets the modes")
    if not seen.modal:
        return Verdict(Outcome.PASS, "no module that ran depends on the mode; evaluation changed nothing", looked_at=1)
    return Verdict(
        Outcome.PASS,
        f"all {seen.modal} dropout and batch-norm modules were in evaluation mode, no parameter or statistic changed",
        looked_at=seen.modal,
    )


def _of_weights(seen: Evaluation, weights: MovedWeights | None) -> Iterator[Finding]:
    place = Location(seen.place.path, seen.place.line)
    if seen.changed_parameters:
        yield Finding(f"evaluating changed the parameters {listed(list(seen.changed_parameters))}", place)
    elif weights and weights.names:
        message = (
            f"evaluating the trained model changed {listed(list(weights.names))}, and the next step trains on from "
            "there: training goes on with what was put in for the evaluation"
        )
        yield Finding(message, place, help="evaluate a copy, or put the weights back where the evaluation ends")
    if weights and weights.beside:
        message = (
            f"evaluating changed {listed(list(weights.beside))}, which the next training step asks: what training is "
            "told depends on how often it was evaluated"
        )
        yield Finding(message, place, help="move a teacher or a target network in the training step alone")


def _within_the_round(seen: AfterStep) -> Verdict:
    if not seen.training:
        told = f"all {seen.modal} dropout and batch-norm modules were in evaluation mode when the model was looked at"
        return Verdict(Outcome.PASS, told, looked_at=seen.modal)
    names = listed([name for name, _ in seen.training])
    message = (
        f"after its step the model is called again on the same, without gradients, and {names} ran in training mode"
    )
    help_ = "call model.eval() before this, and model.train() before the next step"
    return Verdict(
        Outcome.WARN, message, findings=(Finding(message, seen.training[0][1], help=help_),), looked_at=seen.modal
    )
