"""attention-mask-inverted: a boolean mask is true for what it should leave out, or the other way round."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.layers.attention_masks import ATTENTION, inverted_masks

LOOKS_AT = "attention"
WORDS = ("Transformer", "MultiheadAttention", "scaled_dot_product_attention", "padding_mask", "masked_fill")
_WHAT = {
    "past": "the places up to each one",
    "future": "the places after each one",
    "tokens": "the tokens",
    "padding": "the padding",
    "before": "the places before each one",
}


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum(1 for _ in facts.sites.calls(*ATTENTION))
    for found in inverted_masks(facts.sites):
        hides = found.true_for in ("past", "tokens", "before")
        made = found.made
        yield Finding(
            f"`{found.name}` is true for {_WHAT[found.true_for]}, and where it is true this "
            f"{'attention does not look' if hides else 'function looks'}",
            found.call.place.location,
            help=f"invert it: `~{found.name}`",
            related=(made.file.place(made.node, made.context).location,),
        )
