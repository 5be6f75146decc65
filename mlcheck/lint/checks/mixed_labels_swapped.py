"""mixed-labels-swapped: the label of the input that weighs less weighs more."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.training.mixed_labels import crossed_shares

LOOKS_AT = "mixture of losses"
WORDS = ("1 - ", "1. - ", "1.0 - ", "1-")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for found in crossed_shares(facts.sites):
        facts.sites.seen[LOOKS_AT] += 1
        yield Finding(
            f"A sample's own input has the share `{found.share}`, and its own label the rest of it: the more of it "
            "there is to see, the less it counts",
            found.loss.location,
            help=f"`{found.share} * loss(out, y) + (1 - {found.share}) * loss(out, y[order])`",
            related=(found.mixed.location,),
        )
