"""scheduler-before-optimizer: the schedule moves on before the optimizer has taken its first step."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.values import owner_key

LOOKS_AT = "learning-rate scheduler"
WORDS = ("schedule",)


def check(facts: Facts) -> Iterator[Finding]:
    for step in facts.training.scheduler_steps:
        if step.given or step.optimizer_stepped or not step.when.loops:
            continue
        if not step.always and not step.in_turn:
            continue
        loop = step.when.loops[-1][0]
        keys = set(map(owner_key, step.scheduler.optimizers))
        steps = [s for s in facts.steps if s.key in keys and loop in dict(s.when.loops)]
        if steps:
            yield Finding(
                f"`{step.scheduler.name}` is stepped before the optimizer: its first learning rate is never used",
                step.place.location,
                help="call the scheduler's `step()` after the optimizer's",
                related=(steps[0].place.location,),
            )
