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
    return _text_of(trial, files)


def loaded_text(trial: Trial) -> str:
    """The entry's file, and every other of the user's that was imported."""
    return _text_of(trial, {getattr(module, "__file__", None) or "" for module in [*sys.modules.values()]})


def _text_of(trial: Trial, files: set[str]) -> str:
    paths = [trial.entry[0], *sorted(file for file in files if file.endswith(".py") and is_users(file))]
    return "\n".join(_read(path) for path in dict.fromkeys(paths))


def names_after_construction(text: str) -> frozenset[str] | None:
    """The names in what may happen once all is made: loops, and functions other than `__init__`.

    What a function copies into a name of its own, before the loop that it is there for, belongs to the making.
    None where the text cannot be read.
    """
    try:
        return frozenset(_names(ast.parse(text), inside=False, loops=True))
    except (SyntaxError, ValueError):
        return None


def _names(tree: ast.AST, inside: bool, loops: bool) -> Iterator[str]:
    made: list[ast.stmt] = []
    if isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef):
        inside = loops = tree.name != "__init__"
        made = [*_made_before_loop(tree)]
    elif isinstance(tree, ast.For | ast.While | ast.AsyncFor):
        inside = loops
    for node in ast.iter_child_nodes(tree):
        if node in made:
            continue
        if inside and isinstance(node, ast.Name | ast.Attribute):
            yield node.id if isinstance(node, ast.Name) else node.attr
        yield from _names(node, inside, loops)


def _made_before_loop(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.stmt]:
    """Copies that a function binds to a local name and keeps to itself, as a script's `main` does."""
    returned = {one.id for node in ast.walk(function) if isinstance(node, ast.Return) for one in _loaded(node)}
    outer = {name for node in ast.walk(function) if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}
    loops = [index for index, node in enumerate(function.body) if isinstance(node, ast.For | ast.While)]
    for statement in function.body[: max(loops, default=0)]:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=copies)):
                if "deepcopy" in ast.unparse(copies) and name not in returned | outer:
                    yield statement


def _loaded(tree: ast.AST) -> Iterator[ast.Name]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Name))


def _read(path: str) -> str:
    try:
        return read_source(path)
    except (OSError, SyntaxError, ValueError):
        return ""
