"""early-stop-ignored: something notices that training should end, and nobody asks it."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.evaluation.unheard_stoppers import unheard

LOOKS_AT = "object that ends training"
WORDS = ("stop", "Stop", "early", "halt")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum(1 for _ in facts.sites.mentioning(WORDS))
    for each in unheard(facts.sites):
        yield Finding(
            f"Nothing reads `{each.flag}`: training goes on after it should have ended",
            each.place.location,
            help="ask for it in the loop, and `break`",
            related=(each.told.location,),
        )
