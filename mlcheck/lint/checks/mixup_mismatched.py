"""mixup-mismatched: samples are mixed with other partners, or by other weights, than their targets."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.data.mixed_targets import crossed_weights, other_partners

LOOKS_AT = "mixture of samples"
WORDS = ("randperm", "permutation(", "flip(", "roll(", "1 - ", "1. - ", "1.0 - ", "1-", "1.0-", "1.-")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for apart in other_partners(facts.sites):
        facts.sites.seen[LOOKS_AT] += 1
        yield Finding(
            f"`{apart.samples}` and `{apart.targets}` are mixed with different partners: "
            "the targets belong to other samples",
            apart.mixed.location,
            help="draw one order, and take the partners of both by it",
            related=(apart.other.location,),
        )
    for crossed in crossed_weights(facts.sites):
        facts.sites.seen[LOOKS_AT] += 1
        if crossed.twice:
            yield Finding(
                "Both parts of this loss have the targets of the samples themselves: those of their partners are "
                "nowhere",
                crossed.loss.location,
                help="give the second part the targets in the order of the partners: `y[order]`",
                related=(crossed.mixed.location,),
            )
            continue
        yield Finding(
            f"`{crossed.weight}` is the weight of the sample in the mixture, and that of its partner in the loss, or "
            "the other way round",
            crossed.loss.location,
            help="weigh the two losses as the two samples are weighed",
            related=(crossed.mixed.location,),
        )
