"""Totals that nothing is ever added to: nought, and nought again after each report."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import before_methods, is_name
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.words import lines_with

_BEGUN = pattern(r"[ \t]+([\w, ]+) = [^=\n]*\b0")
_TOTALS = ("loss", "acc", "correct", "total", "hits", "err", "score")
_PLAIN = ("item", "float", "cpu")


class NeverAdded(NamedTuple):
    """The mean that is taken of it, its name, and where it begins."""

    mean: Place
    name: str
    begun: Place


def never_added(sites: Sites) -> Iterator[NeverAdded]:
    """`train_loss = 0.0`, and in the loop below `train_loss / log_interval`, where no other line gives it anything."""
    for file in sites.mentioning(["backward(", "no_grad", ".eval()"]):
        names = {name for name in _begun_with(file.text) if f"{name} += " not in file.text}
        for function in file.functions if names and not file.is_test else ():
            stored: dict[str, list[ast.AST]] = {}
            for node in function.nodes:
                if isinstance(node, ast.Name) and node.id in names and not isinstance(node.ctx, ast.Load):
                    stored.setdefault(node.id, []).append(node)
            for name, targets in stored.items():
                begun = [line for line in function.all(ast.Assign) if _gives_nought(line, name)]
                shared = any(
                    isinstance(node, ast.Global | ast.Nonlocal) and name in node.names for node in function.nodes
                )
                if shared or len(begun) != len(targets) or name in function.parameters:
                    continue
                mean = next((node for node in function.all(ast.BinOp) if _is_mean(node, name)), None)
                if mean is not None and any(loop.lineno < mean.lineno for loop in function.all(ast.For)):
                    yield NeverAdded(function.place(mean), name, function.place(begun[0]))


def _begun_with(text: str) -> Iterator[str]:
    """The totals to which the text gives a nought."""
    for word in _TOTALS:
        for line in lines_with(word, text):
            begun = _BEGUN.match(line) if " = " in line else None
            yield from (name for name in begun[1].split(", ") if word in name) if begun is not None else ()


def _gives_nought(line: ast.Assign, name: str) -> bool:
    """`total = 0.0`, `total, seen = 0.0, 0` and `total = seen = 0`."""
    for target in line.targets:
        if is_name(target, name):
            return _is_nought(line.value)
        if isinstance(target, ast.Tuple) and isinstance(line.value, ast.Tuple):
            pairs = zip(target.elts, line.value.elts, strict=False)
            if any(is_name(one, name) and _is_nought(value) for one, value in pairs):
                return True
    return False


def _is_nought(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in (0, 0.0) and not isinstance(node.value, bool)


def _is_mean(node: ast.BinOp, name: str) -> bool:
    return isinstance(node.op, ast.Div) and is_name(before_methods(node.left, _PLAIN), name)
