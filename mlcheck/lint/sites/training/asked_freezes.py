"""Batch norms that a constructor puts into evaluation mode when it is asked to, and that `train()` puts back."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.project import Sites


class AskedFreeze(NamedTuple):
    """The constructor, what it calls, and the `train()` that undoes it."""

    init: Function
    call: ast.Call
    train: Call


def asked_freezes(sites: Sites, cls: Class, freezes: Function) -> Iterator[AskedFreeze]:
    """`if freeze_bn: self.freeze_bn()`, of a network that is made with `freeze_bn=True` where it is trained."""
    init = cls.methods.get("__init__")
    found = _asked(init, freezes.name) if init is not None else None
    if init is None or found is None or cls.find("train") is not None:
        return
    option, call = found
    again = re.compile(rf"(?<!\bself)\.{re.escape(freezes.name)}\b")
    if any(again.search(file.text) for file in sites.mentioning([f".{freezes.name}"])):
        return
    for file in sites.mentioning([f"{option}=True"]):
        train = next((each for each in file.calls("train") if not each.node.args and not each.node.keywords), None)
        if train is not None and "backward(" in file.text and any(_asks(node, option) for node in _calls(file)):
            yield AskedFreeze(init, call, train)
            return


def _asked(init: Function, name: str) -> tuple[str, ast.Call] | None:
    """`freeze_bn` and the call in `if freeze_bn: self.freeze_bn()`."""
    for node in init.all(ast.If):
        option = node.test.id if isinstance(node.test, ast.Name) else ""
        for line in node.body if option in init.parameters else ():
            match line:
                case ast.Expr(value=ast.Call(func=ast.Attribute() as func, args=[], keywords=[]) as call):
                    if own_attribute(func, init) == name:
                        return option, call
    return None


def _calls(file: File) -> Iterator[ast.Call]:
    return (node for calls in file.walk.calls.values() for node, _ in calls)


def _asks(call: ast.Call, option: str) -> bool:
    return any(
        word.arg == option and isinstance(word.value, ast.Constant) and word.value.value is True
        for word in call.keywords
    )
