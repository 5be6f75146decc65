"""scheduler-before-optimizer: the schedule moves on before the optimizer has taken its first step."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Step
from mlcheck.lint.training import SchedulerStep
from mlcheck.lint.values import owner_key

LOOKS_AT = "learning-rate scheduler"
WORDS = ("schedule",)


def check(facts: Facts) -> Iterator[Finding]:
    for step in facts.training.scheduler_steps:
        if step.given or step.optimizer_stepped or not step.when.loops:
            continue
        steps = _steps_of(facts, step)
        if steps and (step.always or step.in_turn or _follow(steps, step)):
            yield Finding(
                f"`{step.scheduler.name}` is stepped before the optimizer: its first learning rate is never used",
                step.place.location,
                help="call the scheduler's `step()` after the optimizer's",
                related=(steps[0].place.location,),
            )


def _steps_of(facts: Facts, step: SchedulerStep) -> list[Step]:
    """The steps of its optimizer in the loop around it."""
    loop = step.when.loops[-1][0]
    keys = set(map(owner_key, step.scheduler.optimizers))
    return [each for each in facts.steps if each.key in keys and loop in dict(each.when.loops)]


def _follow(steps: list[Step], step: SchedulerStep) -> bool:
    """Whether, in this turn, the optimizer steps in this very branch alone: no other one was its first."""
    loop, turn = step.when.loops[-1]
    same = [each for each in steps if dict(each.when.loops)[loop] == turn]
    return bool(same) and all(step.decided <= each.decided for each in same)
