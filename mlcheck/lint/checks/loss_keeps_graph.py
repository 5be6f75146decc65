"""loss-keeps-graph: losses are summed up or collected with the graphs they were computed with."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Backward, Facts
from mlcheck.lint.training import Kept

LOOKS_AT = "backward pass"


def check(facts: Facts) -> Iterator[Finding]:
    for kept in facts.training.kept:
        reached = [backward for backward in facts.backwards if not kept.calls.isdisjoint(backward.forwards)]
        if not reached or any(backward.forwards != kept.calls for backward in reached):
            continue
        if len({backward.place.spot for backward in reached}) > 1 or not _is_itself_differentiated(kept, reached[0]):
            continue
        yield Finding(
            f"`{kept.name}` keeps the loss with its graph: memory grows with every batch",
            kept.place.location,
            help="add `loss.item()`, or `loss.detach()` where the value is to stay on the device",
            related=(reached[0].place.location,),
        )


def _is_itself_differentiated(kept: Kept, backward: Backward) -> bool:
    """Whether the backward ran before, or runs on the very loss: else the sum may be what is differentiated."""
    return kept.trained or ast.unparse(backward.place.node).startswith(f"{kept.what}.backward(")
