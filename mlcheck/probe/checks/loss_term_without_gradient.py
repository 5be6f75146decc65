"""Judges terms of a loss that the weights change, and that the weights are told nothing of."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.loss.added_constants import AddedConstant, AddedConstants


def check(seen: AddedConstants) -> Verdict:
    findings = tuple(_finding(one) for one in seen.found)
    if findings:
        return Verdict(Outcome.WARN, findings[0].message, findings=findings, looked_at=seen.backwards)
    told = f"no term without a gradient is in the losses of {plural(seen.backwards, 'backward pass')}"
    if seen.terms:
        told = f"{plural(seen.terms, 'plain number')} added to losses do not depend on the weights"
    return Verdict(Outcome.PASS, told, looked_at=seen.backwards)


def _finding(one: AddedConstant) -> Finding:
    message = (
        f"a term of the loss ({one.value:.3g} of {one.loss:.3g}) trains nothing: changing the weights changes it by "
        f"{one.change:.2g}, and the gradient of the loss does not include that"
    )
    if one.of_gradient:
        message += "; it is made of a gradient that was computed without create_graph=True"
        help_ = "pass create_graph=True to torch.autograd.grad"
    else:
        help_ = "keep its graph: no .item(), .detach() or no_grad; or leave it out of the loss and log it separately"
    return Finding(message, one.place, help=help_, numbers={"change": one.change, "missing": one.missing})
