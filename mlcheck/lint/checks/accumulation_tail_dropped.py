"""accumulation-tail-dropped: what was gathered after the last step of an epoch is cleared before the next."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.data.lengths import ends_with_a_step
from mlcheck.lint.sites.training.windows import begun_by_one
from mlcheck.lint.training import Clearing, steps_by_choice

LOOKS_AT = "accumulated step"


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = len({step.place.spot for step in steps_by_choice(facts).values()})
    steps = steps_by_choice(facts)
    for window in begun_by_one(facts.sites):
        yield Finding(
            "The batches are counted from 0: the first step takes one batch alone, and those after the last are left",
            window.step.file.place(window.guard.test, window.step.context).location,
            help="count from 1: `(i + 1) % n == 0`, and step once more where the loader ends",
            related=(window.step.place.location,),
        )
    flushed = {
        grads.place.spot
        for step in facts.steps
        for grads in step.grads
        if grads.place and grads.loop and grads.loop not in {loop.node for loop, _ in step.when.loops}
    }
    loops_around = {each.place.spot: {loop.node for loop, _ in each.when.loops} for each in facts.backwards}
    for clearing in facts.training.clearings:
        around = {loop.node for loop, _ in clearing.when.loops}
        for grads in clearing.grads:
            choice = grads.choice
            if grads.kind != "fresh" or choice is None or not choice.only or grads.place is None:
                continue
            if grads.loop is None or grads.loop in around or grads.place.spot in flushed:
                continue
            between = loops_around.get(grads.place.spot, set())
            if not around <= between or (not around and (len(between) > 1 or _begins_anew(facts, clearing))):
                continue  # what is left at the end of all epochs, as another call would find it
            if (clearing.key, choice.spot, choice.holds) in steps:
                continue
            step = steps.get((clearing.key, choice.spot, not choice.holds))
            if step is not None and not ends_with_a_step(facts.sites, step.place):
                yield Finding(
                    "This clears the gradients gathered after the last step of an epoch: they are never used",
                    clearing.place.location,
                    help="step once more where the loader ends: `or i + 1 == len(loader)`",
                    related=(step.place.location,),
                )


def _begins_anew(facts: Facts, clearing: Clearing) -> bool:
    """Whether each call of the function makes an optimizer of its own: it uses nothing that another call has left."""
    made = facts.training.optimizers.get(clearing.key)
    here = (each for each in facts.training.optimizers.values() if each.when.calls == clearing.when.calls)
    return made is not None and any(each.place.spot == made.place.spot for each in here)
