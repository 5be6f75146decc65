"""plateau-wrong-way: ReduceLROnPlateau waits for an accuracy to fall, or for a loss to rise."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.metrics import better
from mlcheck.lint.training import Scheduler

LOOKS_AT = "plateau scheduler"


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum(made.name == "ReduceLROnPlateau" for made in facts.training.schedulers.values())
    for step in facts.training.scheduler_steps:
        mode = _mode(step.scheduler) if step.scheduler.name == "ReduceLROnPlateau" else ""
        metric = _metric(step.place.node)
        wanted = {"higher": "max", "lower": "min"}.get(better(metric), "")
        if mode and wanted and mode != wanted:
            yield Finding(
                f"`{metric}` is better when it is {better(metric)}, and the scheduler waits for the "
                f"other: `mode='{mode}'`",
                step.place.location,
                help=f"make the scheduler with `mode='{wanted}'`",
                related=(step.scheduler.place.location,),
            )


def _mode(scheduler: Scheduler) -> str:
    """`min` or `max`; "" where it is not written out."""
    node = scheduler.place.node
    if not isinstance(node, ast.Call) or any(isinstance(arg, ast.Starred) for arg in node.args):
        return ""
    if any(keyword.arg is None for keyword in node.keywords):
        return ""
    given = [*node.args[1:2], *(keyword.value for keyword in node.keywords if keyword.arg == "mode")]
    if not given:
        return "min"
    return str(given[0].value) if isinstance(given[0], ast.Constant) else ""


def _metric(node: ast.AST) -> str:
    """The name of what the scheduler is told; "" for anything computed."""
    if not isinstance(node, ast.Call):
        return ""
    given = [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg == "metrics")]
    value = given[0] if given else None
    if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant):
        return str(value.slice.value)
    if isinstance(value, ast.Attribute):
        return value.attr
    return value.id if isinstance(value, ast.Name) else ""
