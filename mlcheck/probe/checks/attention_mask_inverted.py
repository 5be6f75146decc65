"""Judges whether the mask of an attention hides what was filled up, or the data."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.model.key_masks import FEW_PLACES, KeyMask, KeyMasks


def check(seen: KeyMasks) -> Verdict:
    wrong = [call for call in seen.calls if _is_inverted(call)]
    if not wrong:
        told = f"what {plural(len(seen.calls), 'attention')} with a mask of keys looks at differs between samples"
        return Verdict(Outcome.PASS, told, looked_at=len(seen.calls))
    findings = tuple(_finding(call) for call in wrong)
    return Verdict(Outcome.FAIL, findings[0].message, findings=findings, looked_at=len(seen.calls))


def _is_inverted(call: KeyMask) -> bool:
    """All that is looked at is the same in every sample, and little of what is hidden: a token that all begin with."""
    many = min(call.seen, call.hidden) >= FEW_PLACES
    return many and call.seen_alike == call.seen and 2 * call.hidden_alike < call.hidden


def _finding(call: KeyMask) -> Finding:
    looked_at, hidden = plural(call.seen, "place"), plural(call.hidden, "place")
    message = (
        f"the attention mask is inverted: at all {looked_at} that are looked at, of {call.places}, the samples have "
        f"one and the same key, as where a batch is filled up, and at the {hidden} that are hidden they differ: the "
        "model reads the padding and never the data"
    )
    help_ = (
        "key_padding_mask of nn.MultiheadAttention is True where keys are ignored; a boolean attn_mask of "
        "scaled_dot_product_attention is True where they take part"
    )
    return Finding(message, call.place, help=help_)
