"""Totals that are overwritten with what the item gave, and then added to themselves."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import before_methods, is_name
from mlcheck.lint.sites.blocks import straight
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context
from mlcheck.lint.words import numbers_of_lines

_TO_ITSELF = pattern(r"(?m)^[ \t]*(\w+) ?\+= ?\1(?:\.\w+\(\))*[ \t]*$")
_NUMBER = ("item", "detach", "cpu", "mean", "sum")


def doubled(sites: Sites) -> Iterator[tuple[Place, str]]:
    """`total = 0` before a loop, and `loss, total = criterion(...)` and `total += total` in it."""
    for file in sites.mentioning(["+="]):
        for loop, context in file.walk.loops if numbers_of_lines(_TO_ITSELF, file.text, ("+=",)) else ():
            given: set[str] = set()
            for line in straight(loop.body):
                if isinstance(line, ast.AugAssign) and isinstance(line.op, ast.Add):
                    name = line.target.id if isinstance(line.target, ast.Name) else ""
                    if (
                        name in given
                        and is_name(before_methods(line.value, _NUMBER), name)
                        and _is_begun(file, name, loop, context)
                    ):
                        yield file.place(line, context), name
                given |= _given(line)


def _given(line: ast.stmt) -> set[str]:
    """The names that a call gives what belongs to this item."""
    target = line.targets[0] if isinstance(line, ast.Assign) and isinstance(line.value, ast.Call) else None
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    return {part.id for part in parts if isinstance(part, ast.Name)}


def _is_begun(file: File, name: str, loop: ast.stmt, context: Context) -> bool:
    """Whether the total was begun at nought above the loop."""
    values = (each.value for each in file.bindings(name, context))
    begun = (value for value in values if isinstance(value, ast.Constant) and value.value == 0)
    return any(value.lineno < loop.lineno for value in begun)
