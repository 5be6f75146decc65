"""loss-rewrapped: a backward from a new tensor that holds the loss's value and nothing of its graph."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts

LOOKS_AT = "backward pass"


def check(facts: Facts) -> Iterator[Finding]:
    for backward in facts.backwards:
        if backward.severed is not None:
            yield Finding(
                "The loss is cut off from the model here: its `backward()` reaches no parameter",
                backward.severed.location,
                help="call `backward()` on the loss itself; take `item()` or `detach()` only for what is logged",
                related=(backward.place.location,),
            )
