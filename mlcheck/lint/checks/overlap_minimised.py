"""overlap-minimised: the overlap with the mask is added to the loss, so that training makes it small."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.layers.lowered_overlaps import lowered_overlaps

LOOKS_AT = "loss of an overlap"
WORDS = ("dice", "Dice", "iou", "IoU", "accard", "versky")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for found in lowered_overlaps(facts.sites):
        facts.sites.seen[LOOKS_AT] += 1
        called = ast.unparse(found.call.node.func)
        yield Finding(
            f"`{called}` returns the overlap itself, 1 where prediction and mask agree, and it is minimised: training "
            "drives them apart",
            found.call.place.location,
            help=f"`1 - {called}(...)`",
            related=(found.overlap.place().location,),
        )
