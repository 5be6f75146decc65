"""Sums that every so many batches are divided by that number, and go on from there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import is_name, walk
from mlcheck.lint.sites.blocks import straight
from mlcheck.lint.sites.branches import Branch, branches_of
from mlcheck.lint.sites.evaluation.epoch_sums import is_set, is_sum
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.scopes import Context

_UNITS = ("60", "3600", "1000", "1024", "1000000", "1000.0", "1000000.0")
_MEASURED = pattern(r"loss|acc|err|correct|hits|reward|score|metric|iou|dice|psnr|norm")


class GrowingMean(NamedTuple):
    """`total / n`, and the line that adds to `total`."""

    told: ast.BinOp
    added: ast.AugAssign
    context: Context


def growing_means(file: File) -> Iterator[GrowingMean]:
    """`if i % n == 0: print(total / n)`, where nothing starts `total` anew: in a loop, or in a method called in one."""
    for loop, context in file.walk.loops:
        for told, added in _reports(loop.body, loop):
            if _grows(file, loop, told.left, context):
                yield GrowingMean(told, added, context)
    for function in file.functions:
        if function.cls is not None and "%" in function.text and "+=" in function.text:
            for told, added in _reports(function.node.body, None):
                if _begins_once(function, told.left):
                    yield GrowingMean(told, added, function.inner)


def _grows(file: File, loop: ast.For | ast.While, total: ast.expr, context: Context) -> bool:
    """Whether the line that adds is the only one in the loop that sets the sum."""
    if isinstance(total, ast.Name):
        return sum(is_name(node, total.id) and is_set(node) for node in walk(loop)) == 1
    method = file.method_around(context)
    stores = [node for node in walk(loop) if ast.unparse(node) == ast.unparse(total)] if _is_own(total) else []
    alone = sum(isinstance(getattr(node, "ctx", None), ast.Store) for node in stores) == 1
    return alone and method is not None and _is_set_by(method, total, {method.name, "__init__"})


def _begins_once(function: Function, total: ast.expr) -> bool:
    """Whether the constructor alone sets the attribute that the method adds to."""
    return _is_own(total) and function.name != "__init__" and _is_set_by(function, total, {"__init__"})


def _is_own(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)


def _is_set_by(method: Function, total: ast.expr, names: set[str]) -> bool:
    """Whether these methods alone set the attribute, apart from one line that adds to it, and nobody outside does."""
    name = own_attribute(total, method)
    sets = method.cls.attribute(name) if name and method.cls is not None else []
    begun = [(function, each) for function, each in sets if not isinstance(each.node, ast.AugAssign)]
    if len(begun) != 1 or len(sets) != 2 or begun[0][0].name not in names:
        return False
    written = re.compile(rf"\.{name}\b[^=\n+]*(?<![!<>])=(?!=)|['\"]{name}['\"]|__dict__|setattr\(")
    return sum(len(written.findall(other.text)) for other in method.file.sites.mentioning([name], tests=True)) <= 1


def _reports(block: list[ast.stmt], loop: ast.For | ast.While | None) -> Iterator[tuple[ast.BinOp, ast.AugAssign]]:
    """`total / n` under a test of `i % n`, where a line beside it adds to `total`."""
    body = list(straight(block))
    sums = {ast.unparse(line.target): line for line in body if isinstance(line, ast.AugAssign) and is_sum(line)}
    for branch in branches_of(body) if sums else ():
        period, lines = _report(branch)
        if period is None or not lines or (loop is not None and _is_only_report(loop, lines, period)):
            continue
        for node in (node for inner in lines for node in walk(inner)):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and ast.unparse(node.left) in sums:
                added = sums[ast.unparse(node.left)]
                if ast.unparse(node.right) == period and not _is_unit(period, added):
                    yield node, added


def _is_only_report(loop: ast.For | ast.While, lines: list[ast.stmt], period: str) -> bool:
    """Whether there is no second report in this loop: it is left with the first, or is no longer than one period."""
    if isinstance(lines[-1], ast.Return | ast.Break | ast.Raise):
        return True
    return isinstance(loop, ast.For) and ast.unparse(loop.iter) == f"range({period})"


def _report(branch: Branch) -> tuple[str | None, list[ast.stmt]]:
    """The `n` of a test of `i % n`, and what runs once in so many batches."""
    return _period(branch.test), branch.other if isinstance(branch.test, ast.BinOp) else branch.held


def _is_unit(period: str, added: ast.AugAssign) -> bool:
    """`seconds / 60`, `tokens / 1000`: the same thing in other units, every so often."""
    return period in _UNITS and not _MEASURED.search(ast.unparse(added).lower())


def _period(test: ast.expr) -> str | None:
    """`n` of `i % n == k`, `(i + 1) % n == 0`, `not i % n` and `i and i % n == 0`."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        found = [period for value in test.values if (period := _period(value)) is not None]
        return found[0] if len(found) == 1 else None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    elif isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
        test = test.left
    if isinstance(test, ast.BinOp) and isinstance(test.op, ast.Mod) and ast.unparse(test.right) != "1":
        return ast.unparse(test.right)
    return None
