"""Assignments in one form: `rate: float = 0.1` is read as `rate = 0.1`, but for the fields of a class."""

from __future__ import annotations

import ast
import re

from mlcheck.core.patterns import pattern

_ANNOTATED = pattern(r"^[ \t]*[\w.]+ *:[^\n]*=", re.MULTILINE)
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def drop_annotations(tree: ast.Module, text: str) -> None:
    """Rewrite them in the tree: what a value is follows from where it comes, and an annotation promises nothing."""
    if _ANNOTATED.search(text):
        _rewrite(tree)


def _rewrite(node: ast.AST) -> None:
    for field in _BLOCKS:
        block: list[ast.AST] = getattr(node, field, [])
        for position, line in enumerate(block):
            if not isinstance(line, ast.AnnAssign):
                _rewrite(line)
            elif line.value is not None and not isinstance(node, ast.ClassDef):
                block[position] = ast.copy_location(ast.Assign([line.target], line.value), line)
