"""Micro-batches: a loop that computes a part of the loss in each turn, and the backward pass that goes with it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import is_name, stores, walk
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.project import Sites


class Dropped(NamedTuple):
    """The backward pass behind a loop, and the line in which each turn replaces the loss of the turn before."""

    backward: Place
    divided: Place
    name: str


def dropped(sites: Sites) -> Iterator[Dropped]:
    """`for _ in range(n): loss = model(x) / n`, and `loss.backward()` behind the loop: only the last part counts."""
    for file in sites.mentioning([".backward("]):
        for function in file.functions:
            if ".backward(" in function.text and "range(" in function.text:
                yield from _in_function(function)


def _in_function(function: Function) -> Iterator[Dropped]:
    for node in function.nodes:
        for block in (getattr(node, "body", None), getattr(node, "orelse", None)):
            for index, loop in enumerate(block) if isinstance(block, list) else ():
                count = _counted(loop)
                for line in block[index + 1 :] if count and isinstance(block, list) else ():
                    name = _backward_of(line)
                    divided = _divided(loop, name, count) if name else None
                    if divided is not None:
                        yield Dropped(function.place(line), function.place(divided), name)
                    if name or any(stores(line, each) for each in _stored(loop)):
                        break


def _counted(loop: ast.AST) -> str:
    """`n` of `for i in range(n)`."""
    over = loop.iter if isinstance(loop, ast.For) else None
    is_range = isinstance(over, ast.Call) and ast.unparse(over.func) == "range" and len(over.args) == 1
    return ast.unparse(over.args[0]) if isinstance(over, ast.Call) and is_range else ""


def _stored(loop: ast.AST) -> set[str]:
    return {node.id for node in walk(loop) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _backward_of(line: ast.AST) -> str:
    """`loss` of `loss.backward()` and `scaler.scale(loss).backward()`."""
    call = line.value if isinstance(line, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "backward":
        return ""
    owner = call.func.value
    if isinstance(owner, ast.Call) and isinstance(owner.func, ast.Attribute) and owner.func.attr == "scale":
        owner = owner.args[0] if owner.args else owner
    return owner.id if isinstance(owner, ast.Name) else ""


def _divided(loop: ast.AST, name: str, count: str) -> ast.stmt | None:
    """The line `loss = ... / n`, in a loop that never adds to `loss` and runs no backward of its own."""
    lines = [node for node in walk(loop) if isinstance(node, ast.stmt) and node is not loop]
    if any(isinstance(node, ast.Attribute) and node.attr == "backward" for node in walk(loop)):
        return None
    made = [line for line in lines if stores(line, name)]
    last = made[-1] if made else None
    if last is None or any(isinstance(line, ast.AugAssign) and not isinstance(line.op, ast.Div) for line in made):
        return None
    if isinstance(last, ast.AugAssign):
        parts = [last.value] if isinstance(last.op, ast.Div) else []
    else:
        value = last.value if isinstance(last, ast.Assign) else None
        parts = [value.right] if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div) else []
    fresh = len(made) > 1 or not any(is_name(node, name) for node in walk(last))
    return last if fresh and any(ast.unparse(part) == count for part in parts) else None
