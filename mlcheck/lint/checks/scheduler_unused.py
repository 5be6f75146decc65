"""scheduler-unused: a schedule is made and never stepped, so the learning rate stays what it was."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Place
from mlcheck.lint.training import Scheduler
from mlcheck.lint.values import owner_key

LOOKS_AT = "learning-rate scheduler"


def check(facts: Facts) -> Iterator[Finding]:
    stepped = {step.key: step for step in facts.steps}
    moved = {step.scheduler.place.spot for step in facts.training.scheduler_steps}
    for scheduler in facts.training.schedulers.values():
        optimizer = owner_key(scheduler.optimizer) if scheduler.optimizer is not None else None
        if scheduler.place.spot in moved or optimizer not in stepped:
            continue
        if _is_read(facts, scheduler):
            continue
        yield Finding(
            f"`{scheduler.name}` is made and never stepped: the learning rate stays where it is",
            scheduler.place.location,
            help="call its `step()` after the optimizer's, or leave it out",
            related=(stepped[optimizer].place.location,),
        )


def _is_read(facts: Facts, scheduler: Scheduler) -> bool:
    """Whether anything but the assignment mentions the variable or attribute it is in."""
    files = [file for file in facts.sites.files.values() if file.path == scheduler.place.path]
    target = _target(files[0].module.source.tree, scheduler.place) if files else None
    if isinstance(target, ast.Name):
        word = re.compile(rf"\b{re.escape(target.id)}\b")
        return any(len(word.findall(file.text)) > (file in files) for file in facts.sites.files.values())
    if isinstance(target, ast.Attribute):
        word = re.compile(rf"\b{re.escape(target.attr)}\b")
        return sum(len(word.findall(file.text)) for file in facts.sites.files.values()) > 1
    return True


def _target(tree: ast.AST, place: Place) -> ast.expr | None:
    """What the call's result is bound to; None where it goes anywhere else."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and node.value is place.node and len(node.targets) == 1:
            return node.targets[0]
    return None
