"""Judges whether a Poisson loss gets what it was told: the logarithm of a rate, or the rate itself."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.loss.poisson_losses import PoissonLoss, PoissonLosses

_POSITIVE = ("exp", "softplus")


def check(seen: PoissonLosses) -> Verdict:
    judged = [(call, _fault(call)) for call in seen.calls]
    findings = tuple(Finding(told, call.place, help=help_) for call, (told, help_) in judged if told)
    if not findings:
        kinds = sorted({"the logarithm of the rate" if call.log_input else "the rate" for call in seen.calls})
        told = f"{plural(len(seen.calls), 'Poisson loss')} told to take {' and '.join(kinds)}"
        return Verdict(Outcome.PASS, told, looked_at=len(seen.calls))
    return Verdict(Outcome.WARN, findings[0].message, findings=findings, looked_at=len(seen.calls))


def _fault(call: PoissonLoss) -> tuple[str, str]:
    if call.log_input and call.made_by in _POSITIVE:
        message = (
            f"the input of poisson_nll_loss comes from {call.made_by}, and the loss takes it for the logarithm of the "
            f"rate: exp is applied to it once more, so no rate below 1 can be predicted, and {100 * call.below:.3g} % "
            "of the counts are 0"
        )
        return message, "give it the logarithm of the rate, or pass log_input=False"
    if not call.log_input and call.low < 0:
        message = (
            f"the input of poisson_nll_loss goes down to {call.low:.3g}, and with log_input=False it is taken for a "
            "rate, whose logarithm does not exist below 0"
        )
        return message, "leave out log_input=False, or end the model in softplus or exp"
    return "", ""
