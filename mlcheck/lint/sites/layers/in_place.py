"""Tensors in attributes that a module computes with, and writes to in place, with what it is given."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from mlcheck.lint.nodes import is_attribute, is_name, last_name, walk

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


def operands(node: ast.expr) -> Iterator[ast.expr]:
    """What an arithmetic expression is made of, down to what is no arithmetic; constants are left out."""
    if isinstance(node, ast.BinOp):
        yield from operands(node.left)
        yield from operands(node.right)
    elif not isinstance(node, ast.Constant):
        yield node


def met_in_list(node: ast.ListComp, receiver: str, name: str) -> ast.BinOp | None:
    """`m @ x` of `[m @ x for m, x in zip(self.masks, xs)]`: each tensor of a list is computed with."""
    each = _gone_through(node, receiver, name)
    for part in walk(node.elt) if each else ():
        sides = list(operands(part)) if isinstance(part, ast.BinOp) else []
        if isinstance(part, ast.BinOp) and len(sides) > 1 and any(is_name(plain(side), each) for side in sides):
            return part
    return None


def _gone_through(node: ast.ListComp, receiver: str, name: str) -> str:
    """`m` of `for m in self.masks` and of `for m, x in zip(self.masks, xs)`; "" of anything else."""
    match node.generators[0]:
        case ast.comprehension(target=ast.Name(id=each), iter=over) if is_attribute(over, receiver, name):
            return each
        case ast.comprehension(target=ast.Tuple(elts=parts), iter=ast.Call(func=ast.Name(id="zip"), args=given)):
            pairs = zip(parts, given, strict=False)
            found = (part for part, over in pairs if is_attribute(over, receiver, name) and isinstance(part, ast.Name))
            return next((part.id for part in found), "")
    return ""
