"""Loaders named for one split over the data set of another, where the one that they are named for is never read."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import last_name, reads_of, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.values import split_of_name

_SPLITS = ("train", "val", "valid", "validation", "test", "eval", "dev")


class OtherSplit(NamedTuple):
    """The loader's name, the data set it is made of, and the one that nothing reads."""

    loader: str
    data: str
    unread: str
    place: Place


def loaders_of_other_split(file: File) -> Iterator[OtherSplit]:
    """`val_loader = DataLoader(test_set)`, beside a `val_set` that nothing reads."""
    for scope, context in file.scopes() if "Loader(" in file.text else ():
        bound = context.scope.bindings
        for name in bound:
            for data in _made_of(scope, name):
                split = split_of_name(name)
                siblings = [other for other in bound if _stem(other) == _stem(data) and split_of_name(other) == split]
                mixed = split_of_name(data) in ("", split) or not _stem(data) or len(siblings) != 1
                if split and not mixed and not _is_part(scope, data) and not _is_read(file, scope, siblings[0]):
                    place = file.place(_call_of(scope, name, data), context)
                    yield OtherSplit(name, data, siblings[0], place)


def _assignments(scope: ast.AST, name: str) -> list[ast.Assign]:
    nodes = (node for node in walk(scope) if isinstance(node, ast.Assign))
    return [node for node in nodes if [ast.unparse(target) for target in node.targets] == [name]]


def _is_part(scope: ast.AST, name: str) -> bool:
    """Whether it is a part of a data set, of which `split-ignored` tells."""
    lines = (node for node in walk(scope) if isinstance(node, ast.Assign))
    made = [line.value for line in lines if any(name in ast.unparse(target) for target in line.targets)]
    return any(isinstance(each, ast.Call) and last_name(each.func) in ("Subset", "random_split") for each in made)


def _made_of(scope: ast.AST, name: str) -> list[str]:
    """The names of the data that a loader is made of, where it is made once."""
    lines = _assignments(scope, name) if split_of_name(name) else []
    call = lines[0].value if len(lines) == 1 else None
    if not isinstance(call, ast.Call) or not last_name(call.func).endswith("Loader"):
        return []
    given = [*call.args[:1], *(word.value for word in call.keywords if word.arg == "dataset")]
    return [node.id for node in given if isinstance(node, ast.Name)]


def _call_of(scope: ast.AST, name: str, data: str) -> ast.AST:
    value = _assignments(scope, name)[0].value
    return next(node for node in walk(value) if isinstance(node, ast.Name) and node.id == data)


def _stem(name: str) -> str:
    """`_dataset` of `val_dataset`."""
    words = name.lower().split("_")
    rest = [word for word in words if word not in _SPLITS]
    return "_".join(rest) if len(rest) == len(words) - 1 else ""


def _is_read(file: File, scope: ast.AST, name: str) -> bool:
    elsewhere = isinstance(scope, ast.Module) and any(
        other is not file for other in file.sites.mentioning([name], tests=True)
    )
    return elsewhere or bool(reads_of(walk(scope), name)) or "locals()" in file.text
