"""overlap-of-logits: the overlap with a mask is taken of raw scores, not of probabilities."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.layers.overlaps import overlaps_of_logits

LOOKS_AT = "loss of an overlap"
WORDS = ("dice", "Dice", "iou", "IoU", "accard", "versky")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for found in overlaps_of_logits(facts.sites):
        facts.sites.seen[LOOKS_AT] += 1
        loss = ast.unparse(found.loss.node.func)
        yield Finding(
            f"`{found.scores}` are logits, as `{loss}` takes them, and the overlap is one of probabilities: what it "
            "adds up has no bounds",
            found.call.place.location,
            help=f"`{found.scores}.sigmoid()`, or `softmax(dim=1)` where the classes exclude each other",
            related=(found.loss.place.location,),
        )
