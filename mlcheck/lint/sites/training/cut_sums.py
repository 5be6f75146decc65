"""Penalties that a function adds up of numbers without a graph: `total += p.detach().abs().sum()`."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import is_name, last_name
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.origins import returns

_CUTS = frozenset(["detach", "item", "data"])
_ZERO = ("zeros", "tensor", "zeros_like", "new_zeros")


def cut_in_sum(function: Function) -> ast.expr | None:
    """The first part of what a function returns, where that is a sum of which no part has a graph."""
    answers = list(returns(function))
    parts = _parts(function, answers[0]) if len(answers) == 1 else []
    return parts[0] if parts and all(map(_is_cut, parts)) else None


def _parts(function: Function, answer: ast.expr) -> list[ast.expr]:
    """What is added up: by `sum(... for p in parameters)`, or line by line."""
    match answer:
        case ast.Call(func=ast.Name(id="sum"), args=[ast.GeneratorExp(elt=part) | ast.ListComp(elt=part)]):
            return [part]
        case ast.Name(id=name):
            found = []
            for binding in function.file.bindings(name, function.inner):
                added = _added(binding.node, name)
                if added is not None:
                    found.append(added)
                elif not _is_nought(binding.value):
                    return []
            return found
    return []


def _added(line: ast.AST, name: str) -> ast.expr | None:
    """`part` of `total += part` and of `total = total + part`."""
    match line:
        case ast.AugAssign(op=ast.Add(), value=part):
            return part
        case ast.Assign(value=ast.BinOp(left=left, op=ast.Add(), right=part)) if is_name(left, name):
            return part
    return None


def _is_nought(value: ast.AST | None) -> bool:
    if isinstance(value, ast.Call):
        return last_name(value.func) in _ZERO
    return isinstance(value, ast.Constant) and value.value == 0


def _is_cut(part: ast.expr) -> bool:
    """Whether the whole of it went through `.detach()`, `.item()` or `.data`."""
    node: ast.AST = part
    while isinstance(node, ast.Call | ast.Attribute | ast.BinOp):
        if isinstance(node, ast.Attribute) and node.attr in _CUTS:
            return True
        if isinstance(node, ast.BinOp):
            node = node.left if isinstance(node.right, ast.Constant) else node.op
        elif isinstance(node, ast.Call):
            of_torch = isinstance(node.func, ast.Attribute) and is_name(node.func.value, "torch")
            node = node.args[0] if of_torch and node.args else node.func
        else:
            node = node.value
    return False
