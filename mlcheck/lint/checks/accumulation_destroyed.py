"""accumulation-destroyed: gradients gathered over several batches are cleared at every one of them."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk
from mlcheck.lint.training import steps_by_choice

LOOKS_AT = "optimizer step"


def check(facts: Facts) -> Iterator[Finding]:
    yield from _after_the_loop(facts)
    steps = steps_by_choice(facts)
    for clearing in facts.training.clearings:
        around = {loop.node for loop, _ in clearing.when.loops}
        for grads in clearing.grads:
            choice = grads.choice
            if grads.kind != "fresh" or choice is None or grads.loop not in around:
                continue
            if (clearing.key, choice.spot, choice.holds) in steps:
                continue
            if step := steps.get((clearing.key, choice.spot, not choice.holds)):
                yield Finding(
                    "This clears the gradients of every batch, and the step comes only after several of them",
                    clearing.place.location,
                    help="clear the gradients where the optimizer steps, right after the step",
                    related=(step.place.location,),
                )


def _after_the_loop(facts: Facts) -> Iterator[Finding]:
    """The step slipped out of the loop that clears: of all batches, only the last is left for it."""
    cleared = {
        (clearing.key, grads.loop): clearing
        for clearing in facts.training.clearings
        for grads in clearing.grads
        if grads.kind == "fresh"
        and grads.choice is None
        and grads.loop in {loop.node for loop, _ in clearing.when.loops}
    }
    stepped = {(step.key, loop.node) for step in facts.steps for loop, _ in step.when.loops}
    for step in facts.steps:
        for grads in step.grads:
            if grads.kind != "fresh" or grads.loop is None or (step.key, grads.loop) in stepped:
                continue
            clearing = cleared.get((step.key, grads.loop))
            if clearing is None:
                continue
            if any(isinstance(node, ast.Break) for node in walk(grads.loop)):
                continue
            yield Finding(
                "This step comes after the loop, which clears the gradients of each batch: only the last one trains",
                step.place.location,
                help="step inside the loop, after every `backward()`",
                related=(clearing.place.location,),
            )
