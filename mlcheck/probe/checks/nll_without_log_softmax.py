"""Judges what enters nll_loss and ctc_loss: they want log-probabilities."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.loss.loss_inputs import LossInput, LossInputs


def check(inputs: LossInputs) -> Verdict:
    calls = [call for kind in ("nll_loss", "ctc_loss") for call in inputs.of(kind) if call.finite]
    if not calls:
        return Verdict(Outcome.SKIP, reason="no nll_loss or ctc_loss was computed in the training steps")
    faults = tuple(_fault(call) for call in calls if not call.log_distributions)
    if faults:
        return Verdict(Outcome.FAIL, faults[0].message, findings=faults, looked_at=len(calls))
    error = max(call.exp_row_sum_error for call in calls)
    return Verdict(
        Outcome.PASS,
        f"the inputs of {calls[0].kind} are log-probabilities: their exponentials sum to 1 ± {error:.1g}",
        looked_at=len(calls),
    )


def _fault(call: LossInput) -> Finding:
    if call.made_by == "log_softmax":
        what = "log-probabilities over another dimension than the classes"
        help_ = f"take log_softmax over dim={-1 if call.kind == 'ctc_loss' else 1}"
    elif call.distributions or call.made_by in ("softmax", "sigmoid"):
        what, help_ = (
            "probabilities, not their logarithms",
            "use log_softmax instead of softmax, or cross_entropy on logits",
        )
    else:
        what, help_ = "no log-probabilities (logits, it seems)", "apply log_softmax first, or use cross_entropy"
    return Finding(
        f"the input of {call.kind} is {what}: it ranges from {call.low:.3g} to {call.high:.3g}",
        call.place,
        help=help_,
        numbers={"low": call.low, "high": call.high, "exp row sum error": call.exp_row_sum_error},
    )
