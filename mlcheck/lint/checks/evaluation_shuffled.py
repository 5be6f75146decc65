"""evaluation-shuffled: held-out samples come in another order every time."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.data.loaders import loaders

LOOKS_AT = "evaluation loader"
WORDS = ("DataLoader",)


def check(facts: Facts) -> Iterator[Finding]:
    held_out = [loader for loader in facts.sites.once(loaders) if loader.own_split in ("val", "test")]
    facts.sites.seen[LOOKS_AT] = len(held_out)
    for loader in held_out:
        if loader.call.constant("shuffle", 2, False) is True and not loader.trained:
            yield Finding(
                "Held-out samples are shuffled: predictions cannot be matched with files, nor two runs with each other",
                loader.call.place.location,
                help="leave `shuffle` out; it changes no average",
            )
