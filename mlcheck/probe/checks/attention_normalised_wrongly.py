"""Judges whether attention weights sum to one over what they weigh."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.model.wiring import Wiring


def check(seen: Wiring) -> Verdict:
    if not seen.attentions:
        return Verdict(Outcome.SKIP, reason="no softmax is multiplied as a matrix (fused attention normalises itself)")
    wrong = [attention for attention in seen.attentions if attention.softmax != attention.summed]
    findings = tuple(
        Finding(
            f"the softmax runs over dimension {attention.softmax} of {attention.shape}, but the product sums over "
            f"dimension {attention.summed}: the weights of a position do not sum to one",
            attention.place,
            help="softmax(dim=-1) over the keys",
        )
        for attention in wrong
    )
    if findings:
        return Verdict(Outcome.WARN, findings[0].message, findings=findings, looked_at=len(seen.attentions))
    return Verdict(
        Outcome.PASS, f"{plural(len(seen.attentions), 'softmax')} over what is summed", looked_at=len(seen.attentions)
    )
