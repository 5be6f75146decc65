"""Loops that keep what a call answers, batch by batch."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import before_methods, last_name, walk

_MOVES = ("cpu", "cuda", "to", "float", "squeeze", "flatten", "view", "reshape")


def collects(loop: ast.For, call: ast.AST) -> bool:
    """`features.append(model(x))`, also under a name and after it was moved to the CPU."""
    inside = walk(loop)
    names = {
        target.id
        for node in inside
        if isinstance(node, ast.Assign) and _moved(node.value) is call
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    appended = [
        node for node in inside if isinstance(node, ast.Call) and last_name(node.func) == "append" and node.args
    ]
    return any(_moved(node.args[0]) is call or names & {last_name(_moved(node.args[0]))} for node in appended)


def _moved(node: ast.expr) -> ast.expr:
    """`model(x)` of `F.normalize(model(x).flatten(1), dim=1).cpu()`."""
    node = before_methods(node, _MOVES)
    while isinstance(node, ast.Call) and last_name(node.func) == "normalize" and node.args:
        node = before_methods(node.args[0], _MOVES)
    return node
