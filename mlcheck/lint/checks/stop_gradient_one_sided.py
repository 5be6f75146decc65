"""stop-gradient-one-sided: of two views that are compared with each other, one alone is kept from chasing the other."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.training.one_sided import one_sided

LOOKS_AT = "loss of two views"
WORDS = (".detach()", ".data")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum(1 for _ in facts.sites.mentioning(WORDS))
    for found in one_sided(facts.sites):
        yield Finding(
            f"`{found.name}` is not detached, and its counterpart is: the gradient of this term moves the projection "
            "towards the prediction, and the two may collapse",
            found.place.location,
            help=f"`{found.name}.detach()`",
            related=(found.cut.location,) if found.cut != found.place else (),
        )
