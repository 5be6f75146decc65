"""plateau-without-metric: ReduceLROnPlateau is stepped without the number it watches."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk
from mlcheck.lint.training import SchedulerStep

LOOKS_AT = "plateau scheduler"
WORDS = ("ReduceLROnPlateau",)


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum(made.name == "ReduceLROnPlateau" for made in facts.training.schedulers.values())
    for step in facts.training.scheduler_steps:
        if step.scheduler.name == "ReduceLROnPlateau" and not step.given and not _knows_better(facts, step):
            yield Finding(
                "`ReduceLROnPlateau` is stepped without the metric that it monitors: this raises a TypeError",
                step.place.location,
                help="pass the metric that should improve: `scheduler.step(val_loss)`",
                related=(step.scheduler.place.location,),
            )


def _knows_better(facts: Facts, step: SchedulerStep) -> bool:
    """Whether the file also steps it with a metric: then it tells the kinds of scheduler apart, if we cannot."""
    node = step.place.node
    if not isinstance(node, ast.Call):
        return True
    text = ast.unparse(node.func)
    for file in facts.sites.files.values():
        if file.path == step.place.path:
            calls = (other for other in walk(file.module.source.tree) if isinstance(other, ast.Call))
            return any((other.args or other.keywords) and ast.unparse(other.func) == text for other in calls)
    return True
