"""attention-mask-inverted: a mask is true for what it should leave out, or the other way round, or is left out."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.layers.attention_masks import ATTENTION, inverted_masks
from mlcheck.lint.sites.layers.filled_scores import hidden_by_fill
from mlcheck.lint.sites.layers.mask_meanings import OPPOSITE
from mlcheck.lint.sites.layers.masks_left_out import left_out_masks, unread_masks

LOOKS_AT = "attention"
WORDS = ("Transformer", "MultiheadAttention", "scaled_dot_product", "_mask", "masked_fill", "where", "softmax")
_WHAT = {
    "past": "the places up to each one",
    "future": "the places after each one",
    "tokens": "the tokens",
    "padding": "the padding",
    "before": "the places before each one",
    "onwards": "the places from each one on",
}


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum(1 for _ in facts.sites.calls(*ATTENTION))
    for found in inverted_masks(facts.sites):
        hides = found.true_for in ("past", "tokens")
        made = found.made
        yield Finding(
            f"`{found.name}` is true for {_WHAT[found.true_for]}, and where it is true this "
            f"{'layer does not look' if hides else 'function looks'}",
            found.call.place.location,
            help=f"invert it: `~{found.name}`",
            related=(made.file.place(made.node, made.context).location,),
        )
    for hidden in hidden_by_fill(facts.sites):
        made = hidden.made
        yield Finding(
            f"This hides {_WHAT[hidden.true_for]} from attention and leaves {_WHAT[OPPOSITE[hidden.true_for]]}: "
            "the mask is inverted",
            hidden.place.location,
            help="invert the mask, or fill where it is false",
            related=(made.file.place(made.node, made.context).location,),
        )
    for left in (*left_out_masks(facts.sites), *unread_masks(facts.sites)):
        facts.sites.seen[LOOKS_AT] += 1
        yield Finding(
            "The attention mask is fetched and not handed on: the model attends to the padding",
            left.call.location,
            help="pass `attention_mask=attention_mask`",
            related=(left.fetched.location,),
        )
