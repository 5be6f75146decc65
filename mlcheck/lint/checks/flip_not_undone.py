"""flip-not-undone: a prediction of a flipped picture is averaged with that of the picture, and not flipped back."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.evaluation.flipped import unflipped

LOOKS_AT = "prediction of a flipped picture"
WORDS = ("flip", "rot90")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for found in unflipped(facts.sites):
        facts.sites.seen[LOOKS_AT] += 1
        yield Finding(
            f"This is the prediction of `{ast.unparse(found.flipped)}`, flipped as its input is: each pixel is "
            "averaged with the one on the other side",
            found.asked.location,
            help="flip the prediction in the same way before it is averaged",
        )
