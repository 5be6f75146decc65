"""softmax-no-dim: a softmax that guesses its dimension."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.layers.implied_dimension import FUNCTIONS, LAYERS, over_samples, without_dimension

LOOKS_AT = "softmax"
WORDS = ("softm", "Softm")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum(1 for _ in facts.sites.calls(*FUNCTIONS, *LAYERS))
    graver = {call.place.spot for call in facts.sites.once(over_samples)}
    for call in facts.sites.once(without_dimension):
        if call.place.spot not in graver:
            yield Finding(
                f"`{call.name.rpartition('.')[2]}` without `dim`: it takes the first dimension of 1-D and 3-D inputs "
                "and the second of all others",
                call.place.location,
                help="say which: `dim=-1` for (..., classes), `dim=1` for (batch, classes, ...)",
            )
