"""zero-grad-before-step: the gradients are cleared before the optimizer has read them."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts

LOOKS_AT = "optimizer step"


def check(facts: Facts) -> Iterator[Finding]:
    for step in facts.steps:
        for grads in step.grads:
            if grads.kind == "erased" and grads.place is not None:
                yield Finding(
                    "The gradients are cleared between `backward()` and `step()`: the step has nothing to apply",
                    grads.place.location,
                    help="clear them before `backward()` or after `step()`",
                    related=(step.place.location,),
                )
