"""Judges whether the target of temporal-difference learning moves towards its estimate."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.loss.bootstrapped import Bootstrapped

_MESSAGE = (
    "the target of the loss, a reward plus the discounted value of the next state, carries gradients: the network that "
    "is trained computes it, and the loss moves it towards the estimate as well"
)
_WEIGHING = (
    "the advantage that weighs the log-probabilities of actions carries gradients: the loss of the policy trains the "
    "critic too, to call every action that becomes likelier a good one"
)


def check(seen: Bootstrapped) -> Verdict:
    if seen.weighing:
        help_ = "weigh by advantage.detach(); the critic has a loss of its own"
        weighing = tuple(Finding(_WEIGHING, place, help=help_) for place in seen.weighing)
        return Verdict(Outcome.WARN, _WEIGHING, findings=weighing, looked_at=seen.seen)
    if not seen.carrying:
        told = f"the targets of {plural(seen.seen, 'value')} of chosen actions carry no gradients of their network"
        return Verdict(Outcome.PASS, told, looked_at=seen.seen)
    help_ = "compute the target under torch.no_grad(), with the target network if there is one, or detach it"
    findings = tuple(Finding(_MESSAGE, place, help=help_) for place in seen.carrying)
    return Verdict(Outcome.WARN, _MESSAGE, findings=findings, looked_at=seen.seen)
