"""name-never-matches: a variable is compared with a text that it never holds, in place of one that it does."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.possible_texts import comparisons, possible
from mlcheck.lint.values import split_of_name

LOOKS_AT = "comparison with a text"
WORDS = ("==", "!=", " in ")
_SHORTEST = 3


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(["torch"]):
        for asked in comparisons(file):
            held = possible(asked)
            if held is None:
                continue
            facts.sites.seen[LOOKS_AT] += 1
            never = sorted(asked.texts - held.texts)
            meant = [
                (text, other) for text in never for other in sorted(held.texts - held.compared) if _is_like(text, other)
            ]
            if meant and len(never) == len(asked.texts):
                text, other = meant[0]
                yield Finding(
                    f"`{ast.unparse(asked.variable)}` never holds {text!r}, it holds {other!r}: this comparison comes "
                    "out the same every time",
                    file.place(asked.node, asked.context).location,
                    help=f"compare with {other!r}",
                    related=(held.file.place(held.written, held.context).location,),
                )


def _is_like(text: str, other: str) -> bool:
    """Whether one is written where the other is meant: `train` and `training`, `val` and `valid`, `resnet_50`."""
    one, two = (each.lower().replace("-", "").replace("_", "") for each in (text, other))
    if min(len(one), len(two)) < _SHORTEST:
        return False
    split = split_of_name(text)
    return one.startswith(two) or two.startswith(one) or (split != "" and split == split_of_name(other))
