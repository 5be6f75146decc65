"""Actors that are trained by what a critic says of their actions."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import last_name, stores_of
from mlcheck.lint.sites.lines import Lines
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.training.signs import Signs

_CRITIC = pattern(r"critic|^q(?:f|_?net\w*|_func\w*|_value)?_?\d?$|value_?net")
_ACTOR = pattern(r"actor|policy|^pi$|^mu$|generator")
_REWARD = pattern(r"\br\b|reward|\brew\b")
_OTHERWISE = pattern(r"cost|penalt|maximize|discriminator|adversar")


def goes_downhill(function: Function) -> Iterator[ast.Call]:
    """`loss = critic(state, actor(state)).mean()`, `loss.backward()`, where the critic tells what is to be gained."""
    if not _REWARD.search(function.text) or _OTHERWISE.search(function.text.lower()):
        return
    signs = Signs(Lines(function.file, function), lambda node: isinstance(node, ast.Constant))
    for call in function.all(ast.Call):
        if not _CRITIC.search(_called(call).lower()) or "target" in _called(call).lower() or len(call.args) < 2:
            continue
        if any(_is_action(function, arg) for arg in call.args):
            entered = signs.of(call)
            if entered and {each.sign for each in entered} == {1}:
                yield call


def _called(call: ast.Call) -> str:
    """`critic` of `self.critic(...)` and of `self.critic.Q1(...)`."""
    func = call.func
    if isinstance(func, ast.Attribute) and func.attr.lower() in ("q1", "q2", "forward", "q"):
        func = func.value
    return last_name(func)


def _is_action(function: Function, node: ast.expr) -> bool:
    """What the actor does, right here or as the last line above that gave the name its value."""
    if isinstance(node, ast.Call):
        return bool(_ACTOR.search(last_name(node.func).lower())) and "target" not in last_name(node.func)
    stores = list(stores_of(function.nodes, node.id)) if isinstance(node, ast.Name) else []
    above = [line for line in function.all(ast.Assign) if line.lineno < node.lineno and set(stores) & {*line.targets}]
    made = max(above, key=lambda line: line.lineno).value if above else None
    return isinstance(made, ast.Call) and _is_action(function, made)
