"""Losses of each position: `reduction="none"`, and errors that are squared by hand."""

from __future__ import annotations

import ast

from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.returning import returns
from mlcheck.lint.sites.running import run_by
from mlcheck.lint.sites.scopes import Context


def is_unreduced(file: File, node: ast.expr, context: Context, depth: int = 6) -> bool:
    """Whether this is the loss of each position: a call with `reduction="none"`, perhaps reshaped."""
    node, context = source(file, node, context)
    if _is_error(_before_mean(node)) or _is_error(source(file, _before_mean(node), context)[0]):
        return True
    while isinstance(node, ast.Call) and depth > 0:
        held, where = file.value(node.func, context)
        if _says_none(file, node, context):
            return True
        if isinstance(held, ast.Call) and held is not node and _says_none(file, held, where):
            return True
        run = run_by(file, node.func, context)
        if run is not None:
            return _returns_unreduced(run.function, depth - 1)
        if not isinstance(node.func, ast.Attribute):
            break
        node, context = source(file, node.func.value, context)
        depth -= 1
    return False


def _returns_unreduced(function: Function, depth: int) -> bool:
    answers = list(returns(function))
    return bool(answers) and all(is_unreduced(function.file, each, function.inner, depth) for each in answers)


def _before_mean(node: ast.expr) -> ast.expr:
    """`error` of `error.mean(dim=-1)`: the features of each position are put together."""
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr="mean" | "sum"), args=args, keywords=words):
            given = [*args, *(word.value for word in words if word.arg == "dim")]
            if [ast.unparse(dim) for dim in given] in (["-1"], ["2"]):
                return inner
    return node


def _is_error(node: ast.expr) -> bool:
    """`(prediction - target).pow(2)`, `(prediction - target) ** 2`, `(prediction - target).abs()`."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.BinOp(op=ast.Sub()), attr="abs" | "square"), args=[]):
            return True
        case ast.Call(func=ast.Attribute(value=ast.BinOp(op=ast.Sub()), attr="pow"), args=[ast.Constant(value=2)]):
            return True
        case ast.BinOp(left=ast.BinOp(op=ast.Sub()), op=ast.Pow(), right=ast.Constant(value=2)):
            return True
    return False


def squared(node: ast.expr) -> ast.expr | None:
    """`x` of `x ** 2`, `x.pow(2)`, `x.square()` and `x.abs()`; None where it is none of these."""
    match node:
        case ast.BinOp(left=inner, op=ast.Pow(), right=ast.Constant(value=2)):
            return inner
        case ast.Call(func=ast.Attribute(value=inner, attr="pow"), args=[ast.Constant(value=2)]):
            return inner
        case ast.Call(func=ast.Attribute(value=inner, attr="square" | "abs"), args=[]):
            return inner
    return None


def is_difference(file: File, node: ast.expr, context: Context) -> bool:
    """`q - target`, by whatever name."""
    made, _ = source(file, node, context)
    return isinstance(made, ast.BinOp) and isinstance(made.op, ast.Sub)


def _says_none(file: File, node: ast.Call, context: Context) -> bool:
    return any(k.arg == "reduction" and file.constant(k.value, context) == "none" for k in node.keywords)
