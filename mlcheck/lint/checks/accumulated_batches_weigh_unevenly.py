"""accumulated-batches-weigh-unevenly: the loss is divided by a count that grows within the step."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.training.running_divisors import running_divisors

LOOKS_AT = "divided loss"
WORDS = ("backward",)


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for found in running_divisors(facts.sites):
        facts.sites.seen[LOOKS_AT] += 1
        yield Finding(
            f"The loss is divided by `{found.number}`, which grows with every batch: the first batch weighs as many "
            "times the last as there are",
            found.division.location,
            help="divide by the number of batches that make one step",
            related=(found.counted.location,),
        )
