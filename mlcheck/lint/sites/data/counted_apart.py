"""Evaluations that divide by the size of one split, and go over another."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import is_length, is_name, walk
from mlcheck.lint.sites.iteration import iteration_of
from mlcheck.lint.sites.model import Function
from mlcheck.lint.values import split_of_name

_SPLIT = pattern(r"(?<![a-z])(?:train(?:ing)?|valid(?:ation)?|val|test|eval|dev)(?![a-z])")
_TRAINS = (".backward(", ".step(", "zero_grad(")


class CountedApart(NamedTuple):
    """What the loop goes over, and what the division counts."""

    over: ast.expr
    counted: ast.expr


def counted_apart(function: Function) -> Iterator[CountedApart]:
    """`for x, y in loaders["train"]`, and `hits / len(loaders["val"].dataset)`, of which nothing there is read."""
    text = function.text
    if ".eval()" not in text or "len(" not in text or any(word in text for word in _TRAINS):
        return
    loops = [node for node in function.nodes if isinstance(node, ast.For | ast.comprehension)]
    overs = [iteration_of(loop).over for loop in loops]
    for over in overs:
        if _split(over) != "train":
            continue
        for counted in _divisors(function):
            apart = _split(counted) in ("val", "test") and _stem(counted) == _stem(over)
            if apart and all(ast.unparse(counted) not in ast.unparse(other) for other in overs):
                yield CountedApart(over, counted)
                return


def _divisors(function: Function) -> Iterator[ast.expr]:
    """What is counted in `total / len(loader)`, `total / len(loader.dataset)`, also by a name for the number."""
    for node in function.all(ast.BinOp):
        if isinstance(node.op, ast.Div):
            right = node.right
            named = [
                line.value
                for line in function.all(ast.Assign)
                if isinstance(right, ast.Name) and any(is_name(target, right.id) for target in line.targets)
            ]
            made = named[0] if len(named) == 1 else right
            if isinstance(made, ast.Call) and is_length(made) and made.args:
                counted = made.args[0]
                whole = isinstance(counted, ast.Attribute) and counted.attr == "dataset"
                yield counted.value if isinstance(counted, ast.Attribute) and whole else counted


def _split(node: ast.expr) -> str:
    """The split that a name, an attribute or a key tells."""
    words = _SPLIT.findall(_plain(node))
    return split_of_name(words[0]) if len(words) == 1 else ""


def _stem(node: ast.expr) -> str:
    return _SPLIT.sub("*", _plain(node))


def _plain(node: ast.expr) -> str:
    """The text of a name, an attribute or an item; nothing of all else."""
    parts = (ast.Name, ast.Attribute, ast.Subscript, ast.Constant)
    return re.sub("_", " ", ast.unparse(node).lower()) if all(isinstance(part, parts) for part in walk(node)) else ""
