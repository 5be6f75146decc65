"""The text of the user's own files that a trial is made of: what a program says that it wants."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from mlcheck.core.source_text import read_source
from mlcheck.probe.measure.place import is_users
from mlcheck.trial.trial import Trial


def program_text(trial: Trial) -> str:
    """The entry's file, and those in which the classes of its models and objects are written."""
    kinds = {type(module) for model in trial.models.values() for module in model.modules()}
    kinds |= {type(owner) for owner in trial.objects}
    files = {getattr(sys.modules.get(kind.__module__), "__file__", None) or "" for kind in kinds}
    paths = [trial.entry[0], *sorted(file for file in files if file.endswith(".py") and is_users(file))]
    return "\n".join(_read(path) for path in dict.fromkeys(paths))


def names_after_construction(text: str) -> frozenset[str] | None:
    """The names in functions other than `__init__`: what may happen once all is made. None where it cannot be read."""
    try:
        return frozenset(_names(ast.parse(text), inside=False))
    except (SyntaxError, ValueError):
        return None


def _names(tree: ast.AST, inside: bool) -> Iterator[str]:
    if isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef):
        inside = tree.name != "__init__"
    for node in ast.iter_child_nodes(tree):
        if inside and isinstance(node, ast.Name | ast.Attribute):
            yield node.id if isinstance(node, ast.Name) else node.attr
        yield from _names(node, inside)


def _read(path: str) -> str:
    try:
        return read_source(path)
    except (OSError, SyntaxError, ValueError):
        return ""
