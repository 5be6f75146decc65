"""Data that a library hands out as its test set, whatever the program calls it."""

from __future__ import annotations

import ast

from mlcheck.lint.names import canonical
from mlcheck.lint.sites.data.loaders import LOADER, loaders
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import OPEN, Call
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.scopes import Context
from mlcheck.lint.values import split_of_name


def holds_test_set(file: File, node: ast.expr, context: Context) -> bool:
    """`second = DataLoader(MNIST(root, train=False))`, of a name that says nothing itself."""
    if not isinstance(node, ast.Name | ast.Attribute) or split_of_name(ast.unparse(node)):
        return False
    found = origins(file, node, context)
    return bool(found) and all(_is_of_test_set(origin) for origin in found)


def is_tested_too(file: File, node: ast.expr, context: Context) -> bool:
    """`val = DataLoader(held_out)`, where `test = DataLoader(held_out)` is of the same data set."""
    if not isinstance(node, ast.Name | ast.Attribute):
        return False
    found = origins(file, node, context)
    calls = [Call(each.file, each.node, each.context) for each in found if isinstance(each.node, ast.Call)]
    if len(found) != 1 or len(calls) != 1 or canonical(found[0].name) != LOADER:
        return False
    every = file.sites.once(loaders)
    own = [each.spot for loader in every if loader.call.node is calls[0].node for each in loader.data]
    tests = [loader.data for loader in every if loader.own_split == "test" and loader.call.node is not calls[0].node]
    return len(own) == 1 and any(own == [each.spot for each in data] for data in tests)


def _is_of_test_set(origin: Origin) -> bool:
    if not isinstance(origin.node, ast.Call):
        return False
    call = Call(origin.file, origin.node, origin.context)
    if canonical(origin.name) == LOADER:
        data = call.argument("dataset", 0)
        behind = origins(origin.file, data, origin.context) if data is not None and data is not OPEN else []
        return bool(behind) and all(_is_test_set(each) for each in behind)
    return _is_test_set(origin)


def _is_test_set(origin: Origin) -> bool:
    """A data set of torchvision that was asked for its test part."""
    if not isinstance(origin.node, ast.Call) or not origin.name.startswith("torchvision.datasets."):
        return False
    call = Call(origin.file, origin.node, origin.context)
    return call.constant("train", 1) is False or call.constant("split", 1) == "test"
