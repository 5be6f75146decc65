"""Methods under `torch.no_grad()` that a training loop calls by an object: `model.user(u) @ model.item(i).T`."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import assigned, walk
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.origins import callers


def feeds_training(method: Function) -> bool:
    """Whether all that a step differentiates is computed of it, by an object whose parameters the loop trains."""
    return any(_is_differentiated(call) for call in callers(method.file.sites, method))


def _is_differentiated(call: Call) -> bool:
    """Whether the call stands right in the loop, above the `backward` of what is computed of it."""
    owner = ast.unparse(call.node.func.value) if isinstance(call.node.func, ast.Attribute) else ""
    loop = call.loops[0].node if call.loops else None
    if call.function is None or not isinstance(loop, ast.For | ast.While) or not owner:
        return False
    if f"({owner}.parameters()" not in call.function.text or _is_compared_with(loop, call.node):
        return False
    lines = [line for line in loop.body if any(part is call.node for part in walk(line))]
    above = [line for line in loop.body if isinstance(line, ast.Assign)]
    wanted = {_differentiated(node) for node in walk(loop)} - {""}
    for line in reversed(above):
        for target, value in assigned(line):
            if isinstance(target, ast.Name) and target.id in wanted:
                wanted |= {part.id for part in walk(value) if isinstance(part, ast.Name)}
                if line in lines and any(part is call.node for part in walk(value)):
                    return True
    return False


def _is_compared_with(loop: ast.AST, answer: ast.Call) -> bool:
    """`goal` of `(guess - goal).pow(2)` and of `loss(guess, goal)`: what others are to come near may stay as it is."""
    kept = [line.targets for line in walk(loop) if isinstance(line, ast.Assign) and line.value is answer]
    names = {target.id for targets in kept for target in targets if isinstance(target, ast.Name)}
    for node in walk(loop):
        match node:
            case ast.BinOp(left=left, op=ast.Sub(), right=right):
                compared = [left, right]
            case ast.Call(args=args, keywords=words):
                compared = [*args[1:], *(word.value for word in words)]
            case _:
                continue
        if any(each is answer or (isinstance(each, ast.Name) and each.id in names) for each in compared):
            return True
    return False


def _differentiated(node: ast.AST) -> str:
    """`loss` of `loss.backward()`."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="backward")):
            return name
    return ""
