"""positive-not-at-label: a contrastive loss is told that a negative is the class to be found."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.layers.positive_places import misplaced_positives

LOOKS_AT = "positive beside its negatives"
WORDS = ("cat(", "hstack(")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for found in misplaced_positives(facts.sites):
        facts.sites.seen[LOOKS_AT] += 1
        yield Finding(
            "The label is 0 and the positive stands last: the loss draws each sample to its first negative",
            found.loss.place.location,
            help="put the positive first: `torch.cat([positive, negatives], dim=1)`",
            related=(found.joined.location,),
        )
