"""scheduler-stepped-twice: one schedule is moved on at two places of the same loop."""

import ast
import itertools
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.training.twin_schedules import given_another
from mlcheck.lint.training import SchedulerStep
from mlcheck.lint.values import Object

LOOKS_AT = "learning-rate scheduler"
WORDS = ("schedule",)


def check(facts: Facts) -> Iterator[Finding]:
    by_scheduler: dict[object, list[SchedulerStep]] = {}
    for step in facts.training.scheduler_steps:
        by_scheduler.setdefault(step.scheduler.key, []).append(step)
    mistaken = {each.call.place.spot for each in given_another(facts.sites)}
    for first, second in _alike(by_scheduler):
        if second.scheduler.place.spot in mistaken:
            continue  # that its own optimizer has none is what `scheduler-unused` tells
        yield Finding(
            f"This `{second.scheduler.name}` is made as another one is, for the same optimizer: each step of the two "
            "lowers its learning rate twice",
            second.scheduler.place.location,
            help="give each optimizer a schedule of its own",
            related=(first.scheduler.place.location,),
        )
    for steps in by_scheduler.values():
        if any(step.given for step in steps) and steps[0].scheduler.name != "ReduceLROnPlateau":
            continue
        sometimes = {step.place.spot for step in steps if not step.always}
        for first in steps:
            for second in steps:
                if first.place.spot == second.place.spot:
                    continue
                if {first.place.spot, second.place.spot} & sometimes and not _are_together(facts, first, second):
                    continue
                inner, outer = first.when.loops, second.when.loops
                if outer and [loop for loop, _ in inner[: len(outer)]] == [loop for loop, _ in outer]:
                    yield Finding(
                        f"`{second.scheduler.name}` is stepped here, and at another place of the same loop: "
                        "the learning rate runs ahead of its schedule",
                        second.place.location,
                        help="step it at one place: after each batch, or after each epoch",
                        related=(first.place.location,),
                    )


def _alike(by_scheduler: dict[object, list[SchedulerStep]]) -> Iterator[tuple[SchedulerStep, SchedulerStep]]:
    """Two schedules of one kind and shape over one optimizer, each stepped once, in turns of the same loop."""
    once = [steps[0] for steps in by_scheduler.values() if len({step.place.spot for step in steps}) == 1]
    for first, second in itertools.combinations(once, 2):
        one, other = first.scheduler, second.scheduler
        held = [scheduler.optimizers for scheduler in (one, other)]
        if one.place.spot == other.place.spot or one.type != other.type or one.arguments != other.arguments:
            continue
        if len(held[0]) != 1 or held[0] != held[1] or not isinstance(held[0][0], Object):
            continue
        loops = [[loop for loop, _ in step.when.loops] for step in (first, second)]
        if first.always and second.always and loops[0] and loops[0] == loops[1]:
            yield (first, second) if one.place.spot < other.place.spot else (second, first)


def _are_together(facts: Facts, first: SchedulerStep, second: SchedulerStep) -> bool:
    """Whether one call of a function makes both for certain: what decides on the call decides on both alike."""
    made = [facts.sites.call_at(step.place) for step in (first, second)]
    functions = {call.function for call in made if call is not None}
    function = functions.pop() if len(functions) == 1 and None not in made else None
    if function is None or first.when.calls != second.when.calls:
        return False
    branches = [node for node in function.nodes if isinstance(node, ast.If | ast.Try | ast.While | ast.Match)]
    inside = {part for branch in branches for part in walk(branch)}
    leaves = any(isinstance(part, ast.Return | ast.Break | ast.Continue) for part in inside)
    return not leaves and all(call is not None and call.node not in inside for call in made)
