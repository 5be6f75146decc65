"""A critic's answer to a drawn action, which the loss of a policy raises, so that its gradient has to pass that."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.nodes import before_methods, is_name, last_name, loads, walk
from mlcheck.lint.sites.evaluation.without_gradients import blocks_without
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import origin
from mlcheck.lint.sites.model import Function

SHAPES = ("squeeze", "view", "mean", "flatten")


def climbed_here(file: File) -> Iterator[tuple[Function, ast.Call, ast.BinOp]]:
    """`a = policy.sample()` and `(alpha * policy.log_prob(a) - critic(state, a)).mean()` in one function."""
    for function in file.functions if ".log_prob(" in file.text and ".backward(" in file.text else ():
        draws = [node for node in function.all(ast.Assign) if _is_draw(node.value)]
        quiet = set(blocks_without(function.nodes)) if draws else set()
        for line in draws:
            target, draw = line.targets[0], line.value
            if not isinstance(target, ast.Name) or not isinstance(draw, ast.Call) or draw in quiet:
                continue
            for node in function.all(ast.BinOp):
                right = before_methods(node.right, SHAPES)
                told = isinstance(node.op, ast.Sub) and _is_told(function, node.left, target.id)
                if told and judges(file, function, right, {target.id}) and is_minimised(function, node):
                    yield function, draw, node


def _is_draw(node: ast.expr) -> bool:
    """`policy.sample()`, of one distribution that has a name."""
    func = node.func if isinstance(node, ast.Call) and not node.args else None
    return (
        isinstance(func, ast.Attribute) and func.attr == "sample" and isinstance(func.value, ast.Name | ast.Attribute)
    )


def _is_told(function: Function, node: ast.expr, action: str) -> bool:
    """Whether the log-probability of the action stands here, or a name for it."""
    names = {part.id for part in walk(node) if isinstance(part, ast.Name)}
    made = [line.value for line in function.all(ast.Assign) if any(last_name(t) in names for t in line.targets)]
    calls = (part for each in (node, *made) for part in walk(each) if isinstance(part, ast.Call))
    return any(last_name(call.func) == "log_prob" and any(is_name(arg, action) for arg in call.args) for call in calls)


def judges(file: File, user: Function, value: ast.expr, actions: set[str]) -> bool:
    """`self.q1(states, actions)`, through names, `torch.min` and the like."""
    todo, seen = [value], set[int]()
    while todo and len(seen) < 30:
        node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, ast.Call):
            if last_name(node.func) in ("detach", "item"):
                return False
            if any(loads(arg, name) for arg in node.args for name in actions):
                return True
            todo += node.args
            todo += [node.func.value] if isinstance(node.func, ast.Attribute) else []
        elif isinstance(node, ast.Name):
            made, _ = origin(file, node, user.inner)
            todo += [made] if made is not node else []
    return False


def is_minimised(user: Function, node: ast.BinOp) -> bool:
    """Whether `backward()` is called on the mean of it as it is."""
    for line in user.all(ast.Assign):
        name = last_name(line.targets[0])
        value = before_methods(line.value, ("mean", "sum"))
        if isinstance(value, ast.Call) and last_name(value.func) in ("mean", "sum") and value.args:
            value = value.args[0]
        if value is node and name and f"{ast.unparse(line.targets[0])}.backward(" in user.text:
            return True
    return False
