"""Whether anything reads a copy but what averages it: who names it in the program's text, and what is saved of it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torch import Tensor

from mlcheck.probe.measure.tree import leaves
from mlcheck.trial.trial import Trial

_MAKING_OR_SAVING = {"__init__", "state_dict", "load_state_dict", "build_callbacks"}
_BY_ANY_NAME = {"getattr", "vars", "__dict__", "attrgetter"}


def names_one_reader(text: str, path: str) -> bool:
    """Whether each name on the way to a copy stands in one function at most, beside those that make it or save it.

    A method of a class without bases that nothing names is never called.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    used = {*_parts(tree)}  # one file may be read under two paths
    named = [name for _, _, names in used for name in names]
    if not _BY_ANY_NAME.isdisjoint(named):
        return False
    elsewhere = {name for own, _, names in used for name in names if name != own}
    readers = [names for own, free, names in used if own not in _MAKING_OR_SAVING and (free or own in elsewhere)]
    return all(sum(part in names for names in readers) <= 1 for part in path.split(".")[1:])


def is_saved(trial: Trial, tensors: Iterable[Tensor]) -> bool:
    """Whether a checkpoint holds any of these, as far as is known."""
    held = {tensor.data_ptr() for tensor in tensors}
    if trial.saved is None:
        return True
    try:
        return any(leaf.data_ptr() in held for part in trial.saved.values() for _, leaf in leaves(part.state_dict()))
    except Exception:  # a callback that cannot be saved yet
        return True


def _parts(tree: ast.Module) -> Iterator[tuple[str, bool, frozenset[str]]]:
    """Each function, and the rest as one without a name: whether it may be called unnamed, and what it names."""
    for body, free in [(tree.body, True), *((node.body, bool(node.bases)) for node in _classes(tree))]:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node.name, free or node.name.startswith("__"), _named(node)
            elif not isinstance(node, ast.ClassDef):
                yield "", True, _named(node)


def _classes(tree: ast.Module) -> Iterator[ast.ClassDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def _named(tree: ast.AST) -> frozenset[str]:
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=str(name)):
                found.add(name)
    return frozenset(found)
