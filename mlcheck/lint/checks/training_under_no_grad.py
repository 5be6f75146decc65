"""training-under-no-grad: a backward through a forward that recorded no graph."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts

LOOKS_AT = "backward pass"


def check(facts: Facts) -> Iterator[Finding]:
    for backward in facts.backwards:
        switches = [forward.grad for forward in backward.forwards]
        if switches and not backward.unseen and all(switch.kind == "off" for switch in switches):
            places = {switch.place for switch in switches if switch.place is not None}
            yield Finding(
                "`backward()` runs on a loss that was computed with gradients switched off",
                backward.place.location,
                help="take the training step out of the `no_grad` block, or drop the decorator",
                related=tuple(sorted(place.location for place in places)),
            )
