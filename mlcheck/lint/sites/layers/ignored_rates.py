"""Rates of dropout that a module is given and never reads, while its layers get a number of their own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.names import canonical
from mlcheck.lint.sites.layers.modules import DROPOUTS, is_module
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.project import Sites

_KEEPS = ("save_hyperparameters", "locals()", "vars(", "hparams", "inspect.")


def ignored_rates(sites: Sites) -> Iterator[tuple[Function, str, ast.expr]]:
    """`def __init__(self, dropout)` and in it `nn.LSTM(..., dropout=0.0)`: the method, the name and the number."""
    for file in sites.mentioning(["drop"]):
        for cls in file.classes:
            init = cls.methods.get("__init__")
            names = [name for name in init.parameters if "drop" in name.lower()] if init is not None else []
            if init is None or not names or not is_module(cls) or init.node.decorator_list:
                continue
            read = {node.id for node in init.all(ast.Name)}
            unread = [name for name in names if name not in read]
            if unread and not any(word in cls.text for word in _KEEPS):
                yield from ((init, name, number) for name in unread for number in _instead(init, name))


def _instead(init: Function, name: str) -> Iterator[ast.expr]:
    """The first number that a layer gets where the rate was to be had."""
    for node in init.all(ast.Call):
        named = init.file.resolve(node.func, init.inner)
        drops = isinstance(named, str) and canonical(named) in DROPOUTS
        given = Call(init.file, node, init.inner).argument("p" if drops else name, 0 if drops else None)
        if isinstance(given, ast.Constant) and isinstance(given.value, int | float):
            yield given
            return
