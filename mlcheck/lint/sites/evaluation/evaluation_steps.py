"""Random transforms that a Lightning module applies itself, in the steps that evaluate."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.facts import Place
from mlcheck.lint.sites.data.transforms import is_random, steps_of
from mlcheck.lint.sites.guards import asks_mode, conditions, own_attribute
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.origins import Origin
from mlcheck.lint.sites.project import Sites

_HOOKS = {"validation_step": "validation", "test_step": "test"}
_DEPTH = 2


def augmented_steps(sites: Sites) -> Iterator[tuple[Place, str, str]]:
    """`self.augment(x)` where a step of evaluation is sure to come by: the place, which data, the random transform."""
    for cls in sites.classes:
        if not any(name.endswith(".LightningModule") for name in cls.libraries):
            continue
        told = set[ast.AST]()
        for hook, kind in _HOOKS.items():
            step = cls.find(hook)
            for call in _applied(cls, step, _DEPTH) if step is not None else ():
                drawn = _random(cls, own_attribute(call.node.func, call.function))
                if drawn and call.node not in told:
                    told.add(call.node)
                    yield call.place, kind, drawn


def _applied(cls: Class, step: Function, depth: int) -> Iterator[Call]:
    """The calls of the object's own attributes under no condition, in the step and the methods that it calls."""
    for node in step.nodes:
        func = node.func if isinstance(node, ast.Call) else None
        name = own_attribute(func, step) if func is not None else ""
        if not name or not isinstance(node, ast.Call):
            continue
        call = next((each for each in step.file.calls(name) if each.node is node), None)
        if call is None or call.function is not step or conditions(call.context) or _leaves_first(step, node):
            continue
        method = cls.find(name)
        if method is None:
            yield call
        elif depth > 0 and method is not step:
            yield from _applied(cls, method, depth - 1)


def _leaves_first(step: Function, node: ast.Call) -> bool:
    """Whether the mode, or what it is told, may let the step go elsewhere before or in the same line."""
    if any(isinstance(each, ast.IfExp) and asks_mode(each.test) for each in step.nodes):
        return True
    return any(isinstance(line, ast.If) and line.lineno < node.lineno and _returns(line) for line in step.node.body)


def _returns(line: ast.If) -> bool:
    return any(isinstance(each, ast.Return | ast.Raise) for each in (*line.body, *line.orelse))


def _random(cls: Class, name: str) -> str:
    """The random transform that an attribute holds, or that is among those it holds."""
    sets = cls.attribute(name)
    if len(sets) != 1 or sets[0][1].value is None:
        return ""
    steps = steps_of(Origin(sets[0][0].file, sets[0][1].value, sets[0][1].context)) or []
    return next((step.name.rpartition(".")[2] for step in steps if is_random(step)), "")
