"""accumulation-destroyed: gradients gathered over several batches are cleared at every one of them."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.training import steps_by_choice

LOOKS_AT = "optimizer step"


def check(facts: Facts) -> Iterator[Finding]:
    steps = steps_by_choice(facts)
    for clearing in facts.training.clearings:
        around = {loop.node for loop, _ in clearing.when.loops}
        for grads in clearing.grads:
            choice = grads.choice
            if grads.kind != "fresh" or choice is None or grads.loop not in around:
                continue
            if step := steps.get((clearing.key, choice.spot, not choice.holds)):
                yield Finding(
                    "This clears the gradients of every batch, and the step comes only after several of them",
                    clearing.place.location,
                    help="clear the gradients where the optimizer steps, right after the step",
                    related=(step.place.location,),
                )
