"""Judges what enters a Kullback-Leibler divergence: logarithms first, and the target as it was announced."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.loss.divergences import Divergence, Divergences


def check(seen: Divergences) -> Verdict:
    findings = tuple(
        Finding(message, call.place, help=help_) for call in seen.calls for message, help_ in [_fault(call)] if message
    )
    if findings:
        return Verdict(Outcome.FAIL, findings[0].message, findings=findings, looked_at=len(seen.calls))
    known = [call for call in seen.calls if call.input.is_log_distribution or call.input.made_by == "log_softmax"]
    if not known:
        reason = "what enters kl_div is neither a distribution nor the logarithm of one along any dimension"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, looked_at=len(seen.calls))
    return Verdict(Outcome.PASS, "the inputs of kl_div are log-probabilities", looked_at=len(seen.calls))


def _fault(call: Divergence) -> tuple[str, str]:
    one, other = call.input, call.target
    if one.made_by == "log_softmax" or one.is_log_distribution:
        return _fault_of_target(call)
    if one.made_by in ("softmax", "sigmoid") or one.is_distribution:
        how = f"comes from {one.made_by}" if one.made_by else "sums to 1"
        message = (
            f"the input of kl_div {how}: it is a probability where the logarithm of one is subtracted, and the loss is "
            "not smallest where the two agree"
        )
        return message, "give it log_softmax of the logits, in the first place"
    if other.is_distribution and not call.log_target and one.high > 0:
        message = (
            f"the input of kl_div runs from {one.low:.3g} to {one.high:.3g}: raw scores, where the target is a "
            "distribution and the logarithm of one is subtracted"
        )
        return message, "give it log_softmax of the scores"
    return "", ""


def _fault_of_target(call: Divergence) -> tuple[str, str]:
    target = call.target
    if not call.log_target and target.is_log_distribution and target.low < 0:
        message = "the target of kl_div is the logarithm of a distribution, and log_target is not set"
        return message, "pass log_target=True, or the probabilities themselves"
    if call.log_target and target.is_distribution:
        return "the target of kl_div is a distribution, and log_target is set", "take its logarithm, or drop log_target"
    return "", ""
