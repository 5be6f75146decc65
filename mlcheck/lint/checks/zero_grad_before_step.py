"""zero-grad-before-step: the gradients are cleared before the optimizer has read them."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts

LOOKS_AT = "optimizer step"


def check(facts: Facts) -> Iterator[Finding]:
    at_once = {
        clearing.place.spot
        for clearing in facts.training.clearings
        if all(turn == 1 for _, turn in clearing.when.loops)
    }  # a later turn may clear what the one before has left on purpose, and then step under some condition
    for step in facts.steps:
        for grads in step.grads:
            if grads.kind == "erased" and grads.place is not None and (step.always or grads.place.spot in at_once):
                yield Finding(
                    "The gradients are cleared between `backward()` and `step()`: the step has nothing to apply",
                    grads.place.location,
                    help="clear them before `backward()` or after `step()`",
                    related=(step.place.location,),
                )
