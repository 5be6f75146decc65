"""tied-weights-apart: two parts of a model are given one memory by `.data`, and stay two parameters."""

import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import dotted
from mlcheck.lint.sites import File

LOOKS_AT = "weight that takes another's memory"
WORDS = (".data =",)
_COPIES = pattern(r"target|ema|momentum|teacher|old|copy|shadow|average|frozen|init", re.IGNORECASE)


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(WORDS):
        for assigned in file.walk.attributes if "torch" in file.text else ():
            taker, giver = dotted(assigned.target), dotted(assigned.value) if assigned.value is not None else ""
            if not taker.endswith(".weight.data") or not giver.endswith(".weight.data"):
                continue
            facts.sites.seen[LOOKS_AT] += 1
            if _are_parts_of_one(taker, giver) and not _is_dropped(file, giver.removesuffix(".weight.data")):
                tied = f"{taker.removesuffix('.data')} = {giver.removesuffix('.data')}"
                yield Finding(
                    f"`{taker}` takes the memory of `{giver}`, and both stay parameters of their own: they are neither "
                    "tied nor copied, and part when the model moves",
                    file.place(assigned.node, assigned.context).location,
                    help=f"to tie them, `{tied}`; to copy, `.data.copy_(...)`",
                )


def _are_parts_of_one(taker: str, giver: str) -> bool:
    """`self.head.weight.data` and `self.body.embedding.weight.data`: by their names no copies of each other."""
    first, other = taker.split(".")[:-2], giver.split(".")[:-2]
    parts = len(first) > 1 < len(other) and first[0] == other[0]
    return parts and taker != giver and not _COPIES.search(taker + giver)


def _is_dropped(file: File, giver: str) -> bool:
    """Whether the other part goes away afterwards."""
    return f"del {giver}" in file.text or f"{giver} = None" in file.text
