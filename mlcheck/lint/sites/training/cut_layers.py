"""Layers of a module behind whose every call the graph is cut."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.layers.modules import text_of
from mlcheck.lint.sites.layers.named_elsewhere import is_named_elsewhere
from mlcheck.lint.sites.model import Class, Function
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.training.detaching import cut_of, cuts_argument

_PUTS = ("append", "extend", "update", "add", "setdefault", "insert")


def cut_behind(sites: Sites, cls: Class, name: str, sets: int, depth: int = 3) -> tuple[Function, ast.AST] | None:
    """The cut behind all calls of `self.name`: where they stand, or behind the calls of the method they stand in."""
    found = [method for method in cls.methods.values() if f".{name}(" in method.text]
    if len(found) != 1:
        return None
    helpers = {f"self.{m.name}": (m, c) for m in cls.methods.values() if (c := cuts_argument(m)) is not None}
    made = list(_assignments(found[0].node, name))
    cuts = [cut_of(found[0].node, line, frozenset(helpers), f"self.{name}") for line in made]
    if not made or not is_named(sites, cls, name, len(made) + sets):
        return None
    at = cuts[0]
    if at is None or not all(cuts):
        return cut_behind(sites, cls, found[0].name, 0, depth - 1) if depth and _only_answers(found[0]) else None
    if isinstance(at, ast.Attribute) and at.attr == "data" and "pack_" in found[0].text:
        return None  # of a `PackedSequence` they are the rows, with their graph
    return helpers.get(ast.unparse(at.func) if isinstance(at, ast.Call) else "", (found[0], at))


def _only_answers(method: Function) -> bool:
    """Whether what a method computes leaves it by its `return` alone."""
    if method.name == "forward" or method.node.decorator_list or any(isinstance(n, ast.Yield) for n in method.nodes):
        return False
    kept = (n for n in method.nodes if isinstance(n, ast.Attribute | ast.Subscript) and isinstance(n.ctx, ast.Store))
    put = (n for n in method.all(ast.Call) if isinstance(n.func, ast.Attribute) and n.func.attr in _PUTS)
    return not any(kept) and not any(put)


def _assignments(function: ast.AST, name: str) -> Iterator[ast.Assign | ast.Return]:
    """Statements of the function that call `self.name`."""
    for node in walk(function):
        if isinstance(node, ast.Assign | ast.Return) and f"self.{name}(" in ast.unparse(node):
            yield node


def is_named(sites: Sites, cls: Class, name: str, times: int) -> bool:
    """Whether the class names its attribute so often, and nothing else does."""
    word = re.compile(rf"\.{re.escape(name)}\b")
    return len(word.findall(text_of(cls))) == times and not is_named_elsewhere(sites, cls, name)
