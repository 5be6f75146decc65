"""scaling-not-undone: what scales back is not the inverse of what scales."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.data.undoing import not_undone

LOOKS_AT = "pair of scalings"
WORDS = ("inverse", "denorm", "unnorm", "unscale", "rescale", "descale", "decode", "inv_transform", "destandardize")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for pair in not_undone(facts.sites):
        facts.sites.seen[LOOKS_AT] += 1
        yield Finding(
            f"`{pair.back.name}` does not undo `{pair.there.name}`: numbers do not come back as they were",
            pair.back.place().location,
            help=f"solve what `{pair.there.name}` computes for its input",
            related=(pair.there.place().location,),
        )
