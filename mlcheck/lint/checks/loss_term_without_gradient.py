"""loss-term-without-gradient: a term was made a plain number, or computed from detached predictions, and then added."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Loss
from mlcheck.lint.sites.training.graphless_terms import graphless_terms
from mlcheck.lint.values import Symbol, Tensor, live

LOOKS_AT = "backward pass beside a cut"
WORDS = ("detach", "item()", "float(")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum(len(file.calls("backward")) for file in facts.sites.mentioning(WORDS))
    judged: dict[tuple[str, int, int], list[bool]] = {}
    for loss in facts.losses:
        judged.setdefault(loss.place.spot, []).append(_is_severed(loss))
    severed = {spot for spot, all_of in judged.items() if all(all_of)}
    told = set()
    for term in graphless_terms(facts.sites, severed):
        if term.cut.spot not in told:
            told.add(term.cut.spot)
            yield Finding(
                f"`{term.name}` has no graph from here on: in the loss that it is added to it trains nothing",
                term.cut.location,
                help=f"keep the graph of `{term.name}`; take `.item()` or `.detach()` only for what is logged",
                related=(term.sum.location,),
            )


def _is_severed(loss: Loss) -> bool:
    """Whether what a model predicted was detached before the loss got it."""
    given = loss.input
    return isinstance(given, Tensor | Symbol) and bool(given.traces) and not live(given.traces)
