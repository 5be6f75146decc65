"""Judges terms of a loss that the weights change, and that the weights are told nothing of."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.loss.added_constants import AddedConstant, AddedConstants
from mlcheck.probe.measure.loss.cut_decoders import CutDecoder, CutDecoders


def check(seen: AddedConstants, rebuilt: CutDecoders | None) -> Verdict:
    cut = [_cut(rebuilt.found)] if rebuilt and rebuilt.found else []
    findings = (*map(_finding, seen.found), *cut)
    if findings:
        return Verdict(Outcome.WARN, findings[0].message, findings=findings, looked_at=seen.backwards)
    told = f"no term without a gradient is in the losses of {plural(seen.backwards, 'backward pass')}"
    if seen.terms:
        told = f"{plural(seen.terms, 'plain number')} added to losses do not depend on the weights"
    return Verdict(Outcome.PASS, told, looked_at=seen.backwards)


def _cut(one: CutDecoder) -> Finding:
    message = (
        f"what `{one.decoder}` rebuilds does not train `{one.layer}`: changing these weights a little changes it by "
        f"{100 * one.change:.2g} %, but its graph ends before them, and only other terms of the loss train them"
    )
    help_ = (
        "look between the two for .sample() (rsample() keeps the graph), .detach(), no_grad, numpy or an argmin; a "
        "quantiser lets gradients through with z + (q - z).detach()"
    )
    return Finding(message, one.place, help=help_, numbers={"change": one.change})


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
