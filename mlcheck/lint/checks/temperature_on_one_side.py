"""temperature-on-one-side: student and teacher are compared, and the temperature softens one of them alone."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.layers.softened import softened_alone

LOOKS_AT = "loss scaled by a squared temperature"
WORDS = ("kl_div", "KLDivLoss", "log_softmax", "LogSoftmax")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for found in softened_alone(facts.sites):
        facts.sites.seen[LOOKS_AT] += 1
        yield Finding(
            f"This distribution is not softened by `{found.temperature}`, as the one is that it is compared with: "
            "the student cannot match it",
            found.place.location,
            help=f"divide its scores by `{found.temperature}` too",
            related=(found.other.location,),
        )
