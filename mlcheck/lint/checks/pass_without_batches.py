"""pass-without-batches: an iterator is made once, and every epoch but the first finds it empty."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.data.used_up import used_up

LOOKS_AT = "loop over an iterator"
WORDS = ("iter(", "zip(", "map(", "filter(", "enumerate(", "yield", " for ")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for found in used_up(facts.sites):
        facts.sites.seen[LOOKS_AT] += 1
        name = ast.unparse(found.over)
        yield Finding(
            f"`{name}` is an iterator that was made once: after the first pass it is used up, and every later one is "
            "over before it begins",
            found.file.place(found.over, found.context).location,
            help=f"make it anew for each pass: `{ast.unparse(found.made)}`",
            related=(found.file.place(found.made, found.made_in).location,),
        )
