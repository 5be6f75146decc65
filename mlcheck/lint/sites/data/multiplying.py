"""Rows that stand in a table again and again: drawn with replacement, or joined with themselves."""

from __future__ import annotations

import ast

from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.scopes import Context

_RESAMPLE = "sklearn.utils.resample"
_JOINS = frozenset(f"{package}.{name}" for package in ("numpy", "torch") for name in ("concatenate", "hstack", "cat"))
_STACKS = frozenset(["pandas.concat", "numpy.concatenate", "numpy.vstack", "torch.cat", "torch.vstack"])
_DEPTH = 5


def draws_again(file: File, node: ast.expr, context: Context) -> bool:
    """`resample(rows)`, and `x[index]` of numbers that were drawn so, beside others or alone."""
    if isinstance(node, ast.Subscript):
        return _has_drawn(file, node.slice, context, _DEPTH)
    return _is_drawn(file, node, context) or _is_joined_with_itself(file, node, context)


def _is_joined_with_itself(file: File, node: ast.expr, context: Context) -> bool:
    """`pd.concat([rows, rows])`, `pd.concat([rows] * 3)` and `rows.append(rows)`: every row several times."""
    if not isinstance(node, ast.Call) or not node.args:
        return False
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[ast.Name(id=added), *_]):
            return name == added and "pandas" in file.text
    if file.called(node, context) not in _STACKS:
        return False
    along = Call(file, node, context).argument("axis", 1) or Call(file, node, context).argument("dim", 1)
    if along is not None and file.constant(along, context) not in (0, "index"):
        return False
    match node.args[0]:
        case ast.BinOp(left=ast.List(elts=[ast.Name()]), op=ast.Mult()):
            return True
        case ast.List(elts=elts) | ast.Tuple(elts=elts):
            names = [part.id for part in elts if isinstance(part, ast.Name)]
            return len(set(names)) < len(names)
    return False


def _is_drawn(file: File, node: ast.expr, context: Context) -> bool:
    if not isinstance(node, ast.Call):
        return False
    if file.called(node, context) not in (_RESAMPLE, f"{_RESAMPLE}.resample"):
        return _is_sample_of_rows(file, node, context)
    return Call(file, node, context).constant("replace", None, True) is True


def _is_sample_of_rows(file: File, node: ast.Call, context: Context) -> bool:
    """`rows.sample(1000, replace=True)` of a data frame."""
    func = node.func
    if not isinstance(func, ast.Attribute) or func.attr != "sample" or "pandas" not in file.text:
        return False
    return Call(file, node, context).constant("replace", 2, False) is True


def _has_drawn(file: File, node: ast.expr, context: Context, depth: int) -> bool:
    made, where = source(file, node, context)
    if depth == 0 or not isinstance(made, ast.Call):
        return False
    if file.called(made, where) in _JOINS and made.args:
        parts = made.args[0].elts if isinstance(made.args[0], ast.List | ast.Tuple) else []
        return any(_has_drawn(file, part, where, depth - 1) for part in parts)
    return _is_drawn(file, made, where)
