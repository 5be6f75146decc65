"""Judges whether attention weights sum to one over what they weigh."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.model.attention_scales import AttentionScales, Scale, is_upside_down
from mlcheck.probe.measure.model.wiring import Wiring


def check(seen: Wiring, scales: AttentionScales | None) -> Verdict:
    upside_down = [one for one in scales.scales if is_upside_down(one)] if scales else []
    if not seen.attentions and not upside_down:
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
    findings += tuple(map(_upside_down, upside_down))
    if findings:
        return Verdict(Outcome.WARN, findings[0].message, findings=findings, looked_at=len(seen.attentions))
    return Verdict(
        Outcome.PASS, f"{plural(len(seen.attentions), 'softmax')} over what is summed", looked_at=len(seen.attentions)
    )


def _upside_down(scale: Scale) -> Finding:
    return Finding(
        f"the scores of attention are multiplied by {scale.factor:.4g}, the square root of the {scale.width} numbers "
        "of a query, and are to be divided by it: the softmax begins near one key alone, where it hardly learns",
        scale.place,
        help="scores / math.sqrt(width), or width ** -0.5",
        numbers={"factor": scale.factor},
    )
