"""A function that numbers the categories of a column as it finds them, called for training and for held-out data."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites.data.own_scale import OwnScale
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.origins import callers
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.values import split_of_name

_TARGETS = pattern(r"label|target|class|[\"']y[\"']")
_WORDS = (".cat.codes", "factorize(")


def encoded_in_helpers(sites: Sites) -> Iterator[OwnScale]:
    """`train, test = read("train.csv"), read("test.csv")`, where `read` takes `.astype("category").cat.codes`."""
    for file in sites.mentioning(_WORDS) if sites.uses_torch else ():
        for function in file.functions:
            if any(word in function.text for word in _WORDS) and any(map(_numbers, function.all(ast.Assign))):
                yield from _for_both(sites, function)


def _numbers(line: ast.Assign) -> bool:
    """`frame["city"] = frame["city"].astype("category").cat.codes`, of a column that is no target."""
    if _TARGETS.search(ast.unparse(line.targets[0]).lower()):
        return False
    for node in walk(line.value):
        match node:
            case ast.Attribute(
                value=ast.Attribute(
                    value=ast.Call(func=ast.Attribute(attr="astype"), args=[ast.Constant(value="category")]), attr="cat"
                ),
                attr="codes",
            ):
                return True
            case ast.Call(func=func) if last_name(func) == "factorize":
                return True
    return False


def _for_both(sites: Sites, function: Function) -> Iterator[OwnScale]:
    parts: dict[str, list[Call]] = {}
    for call in callers(sites, function):
        words = [
            each.value for each in call.node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)
        ]
        told = {split for name in (*call.file.names_given(call.node), *words) if (split := split_of_name(name))}
        parts.setdefault(told.pop() if len(told) == 1 else "", []).append(call)
    for call in (*parts.get("val", ()), *parts.get("test", ())):
        training = next((each for each in parts.get("train", ()) if each.function is call.function), None)
        if training is not None:
            yield OwnScale(ast.unparse(call.node), call.place, training.place)
