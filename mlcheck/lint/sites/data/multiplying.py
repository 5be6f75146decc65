"""Rows that stand in a table again and again: drawn with replacement, or joined with themselves."""

from __future__ import annotations

import ast
from typing import TypeGuard

from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.scopes import Context

_RESAMPLE = "sklearn.utils.resample"
_JOINS = frozenset(f"{package}.{name}" for package in ("numpy", "torch") for name in ("concatenate", "hstack", "cat"))
_STACKS = frozenset(["pandas.concat", "numpy.concatenate", "numpy.vstack", "torch.cat", "torch.vstack"])
_GENERATORS = ("numpy.random.default_rng", "numpy.random.RandomState")
_INTEGERS = ("integers", "randint")
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
            rows = (part.value if _takes_rows(part) else part for part in elts)
            names = [part.id for part in rows if isinstance(part, ast.Name)]
            return len(set(names)) < len(names) and any(isinstance(part, ast.Name) for part in elts)
    return False


def _takes_rows(node: ast.expr) -> TypeGuard[ast.Subscript]:
    """`rows[rare]`: a name for the rows that are wanted, or a test of theirs."""
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name | ast.Compare)


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


def _is_choice(file: File, node: ast.expr, context: Context) -> bool:
    """`rng.choice(rare, size=n)`, with replacement where nobody says otherwise; `rare[rng.integers(m, size=n)]`."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Call):
        return last_name(node.slice.func) in _INTEGERS and _is_random(file, node.slice, context)
    if not isinstance(node, ast.Call) or last_name(node.func) != "choice" or not _is_random(file, node, context):
        return False
    call = Call(file, node, context)
    return call.argument("size", 1) is not None and call.constant("replace", 2, True) is True


def _is_random(file: File, node: ast.Call, context: Context) -> bool:
    if file.called(node, context).startswith(("numpy.random.", "torch.rand")):
        return True
    made = origins(file, node.func.value, context) if isinstance(node.func, ast.Attribute) else []
    return bool(made) and all(each.name in _GENERATORS for each in made)


def _has_drawn(file: File, node: ast.expr, context: Context, depth: int) -> bool:
    made, where = source(file, node, context)
    if depth == 0 or not isinstance(made, ast.Call):
        return False
    if file.called(made, where) in _JOINS and made.args:
        parts = made.args[0].elts if isinstance(made.args[0], ast.List | ast.Tuple) else []
        found = [source(file, part, where) for part in parts]
        added = any(_is_choice(file, part, there) for part, there in found)
        return (added and len(parts) > 1) or any(_has_drawn(file, part, where, depth - 1) for part in parts)
    return _is_drawn(file, made, where)
