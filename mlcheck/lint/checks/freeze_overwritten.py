"""freeze-overwritten: parameters that were frozen are set free again before anything was trained."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts

LOOKS_AT = "frozen parameter"


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum(1 for file in facts.sites.mentioning(["requires_grad", "require_grad"]))
    for freed, frozen in facts.training.unfrozen:
        yield Finding(
            "This sets all parameters free, also those that were frozen before: the freezing has no effect",
            freed.location,
            help="freeze after this, or leave out the parameters that were frozen",
            related=(frozen.location,),
        )
