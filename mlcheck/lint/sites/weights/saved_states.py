"""Checkpoints in which one object's state stands under the name of another."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.project import Sites


def under_other_names(sites: Sites) -> Iterator[tuple[Place, str, str]]:
    """`"scheduler": optimizer.state_dict()` beside `"optimizer": ...` of the same, and whose state is missing."""
    for file in sites.mentioning([".state_dict()"]):
        if file.text.count(".state_dict()") < 2:
            continue
        for function in file.functions:
            several = function.text.count(".state_dict()") > 1
            for node in function.nodes if several else ():
                if isinstance(node, ast.Dict):
                    yield from _twice(file, function, node)


def _twice(file: File, function: Function, table: ast.Dict) -> Iterator[tuple[Place, str, str]]:
    entries = [
        (key.value, owner, value)
        for key, value in zip(table.keys, table.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(key.value, str) and (owner := _owner(value)) is not None
    ]
    kept = {ast.unparse(owner) for _, owner, _ in entries}
    for key, owner, value in entries:
        word, own = key.removesuffix("_state_dict").removesuffix("_state"), last_name(owner)
        again = any(other != key and own == other.removesuffix("_state_dict") for other, _, _ in entries)
        if word == own or not again or [ast.unparse(each) for _, each, _ in entries].count(ast.unparse(owner)) != 2:
            continue
        meant = _named(function, word)
        if meant and meant not in kept:
            yield function.place(value), ast.unparse(owner), meant


def _owner(value: ast.expr) -> ast.expr | None:
    """`optimizer` of `optimizer.state_dict()`."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "state_dict":
        return value.func.value if isinstance(value.func.value, ast.Name | ast.Attribute) else None
    return None


def _named(function: Function, word: str) -> str:
    """The variable or attribute of exactly that name; "" where there is none."""
    if function.file.bindings(word, function.inner):
        return word
    has = function.cls is not None and bool(function.cls.attribute(word))
    return f"{function.receiver}.{word}" if has else ""
