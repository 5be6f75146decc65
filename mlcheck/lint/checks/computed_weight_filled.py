"""computed-weight-filled: a normalisation computes the weight anew before every pass, and what fills it is lost."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.layers.computed_weights import COMPUTES, lost_fills

LOOKS_AT = "normalised weight"
WORDS = ("weight_norm", "parametrizations")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = len(list(facts.sites.calls(*COMPUTES)))
    for call, norm in lost_fills(facts.sites):
        way = norm.name.rpartition(".")[2]
        yield Finding(
            f"`{way}` computes this weight anew in every forward pass: what fills it here is lost",
            call.place.location,
            help=f"fill the weight before `{way}` is applied: `{way}(layer)` keeps the values it finds",
            related=(norm.file.place(norm.node, norm.context).location,),
        )
