"""scheduler-stepped-twice: one schedule is moved on at two places of the same loop."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.training import SchedulerStep

LOOKS_AT = "learning-rate scheduler"
WORDS = ("schedule",)


def check(facts: Facts) -> Iterator[Finding]:
    by_scheduler: dict[object, list[SchedulerStep]] = {}
    for step in facts.training.scheduler_steps:
        by_scheduler.setdefault(step.scheduler.key, []).append(step)
    for steps in by_scheduler.values():
        if any(step.given for step in steps) and steps[0].scheduler.name != "ReduceLROnPlateau":
            continue
        sometimes = {step.place.spot for step in steps if not step.always}
        for first in steps:
            for second in steps:
                if first.place.spot == second.place.spot or {first.place.spot, second.place.spot} & sometimes:
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
