"""Tensors in attributes that a module writes to in place, with what it is given."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from mlcheck.lint.nodes import is_attribute, last_name, walk

NUMBERS = ("size", "numel", "dim", "item", "tolist", "nelement")
_FROM_ANYWHERE = ("copy_", "requires_grad_")  # `copy_` takes what is on another device


def written_in_place(node: ast.AST, receiver: str, name: str) -> bool:
    """`self.total.mul_(0.9).add_(x)`, `self.total += x.sum(0)`."""
    if isinstance(node, ast.AugAssign):
        counted = [part for part in walk(node.value) if isinstance(part, ast.Call | ast.Attribute)]
        if any(last_name(getattr(part, "func", part)) in (*NUMBERS, "len", "shape") for part in counted):
            return False
        return is_attribute(node.target, receiver, name) and has_local([node.value], receiver)
    func = node.func if isinstance(node, ast.Call) else None
    if not isinstance(node, ast.Call) or not isinstance(func, ast.Attribute):
        return False
    if not func.attr.endswith("_") or func.attr in _FROM_ANYWHERE:
        return False
    return is_attribute(plain(func.value), receiver, name) and has_local(node.args, receiver)


def plain(node: ast.expr) -> ast.expr:
    """`self.c[None, :]` and `self.c.view(1, -1)` are on the device of `self.c`."""
    while True:
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert | ast.USub):
            node = node.operand
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr not in NUMBERS:
            node = node.func.value
        elif isinstance(node, ast.Attribute) and node.attr in ("T", "mT") and not isinstance(node.value, ast.Name):
            node = node.value
        else:
            return node


def has_local(sides: Iterable[ast.expr], receiver: str) -> bool:
    """Whether a side computes with a local name, as an input is."""
    return any(isinstance(node, ast.Name) and node.id != receiver for side in sides for node in walk(side))
