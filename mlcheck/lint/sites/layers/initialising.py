"""Initialisations: functions that fill weights, where they are applied, and to layers of which kinds."""

from __future__ import annotations

import ast

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.layers.modules import collected, text_of
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.words import occurrences

_FILLED = r"\binit\.\w+_\(|\b(?:xavier|kaiming|trunc_normal|orthogonal)\w*_\(|\.weight(?:\.data)?\.\w+_\("
FILLS = pattern(_FILLED, words=["_("])


def applies(node: ast.expr, init: Function) -> bool:
    """`self.apply(own_function)`, or `self.init_weights()` of a method that goes through `self.modules()`."""
    func = node.func if isinstance(node, ast.Call) else None
    if not isinstance(func, ast.Attribute) or not isinstance(func.value, ast.Name) or func.value.id != init.receiver:
        return False
    assert isinstance(node, ast.Call)
    if func.attr == "apply" and len(node.args) == 1:
        given = Call(init.file, node, init.inner).argument("fn", 0)
        named = init.file.resolve(given, init.inner)
        return isinstance(named, Function) and fills(named)
    method = init.cls.find(func.attr) if init.cls is not None else None
    return method is not None and fills(method) and f"{method.receiver}.modules()" in method.text


def fills(function: Function) -> bool:
    return FILLS.search(function.text) is not None


def asked_for(init: Function, call: ast.Call) -> set[str]:
    """The classes that the initialisation tells apart by `isinstance`, by their last names; empty: it may be any."""
    named = init.file.resolve(call.args[0] if call.args else call.func, init.inner)
    return kinds_told_apart(named) if isinstance(named, Function) else set()


def kinds_told_apart(function: Function) -> set[str]:
    """The last names of the classes that it asks for by `isinstance`."""
    found = set()
    for node in function.nodes:
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance" and len(node.args) == 2:
            kinds = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
            found |= {ast.unparse(kind).rpartition(".")[2] for kind in kinds}
    return found


def kinds_named(function: Function) -> set[str]:
    """`Conv` of `name.find("Conv") != -1` and of `"Conv" in name`, in what goes by the names of classes."""
    if "__name__" not in function.text:
        return set()
    return {
        node.value for node in function.all(ast.Constant) if isinstance(node.value, str) and node.value[:1].isupper()
    }


def has_any(cls: Class, made: ast.expr, kinds: set[str]) -> bool:
    """Whether what is made is, or may hold, a layer of one of the kinds."""
    if not kinds:
        return True
    init = cls.methods.get("__init__")
    parts = [node for node in walk(made) if isinstance(node, ast.Starred)] if init is not None else []
    poured = [layer for part in parts if init for layer in collected(cls.file, part, init.inner)]
    for node in (inner for whole in (made, *poured) for inner in walk(whole)):
        last = ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
        named = cls.file.resolve(node.func, cls.defined.inner) if isinstance(node, ast.Call) else None
        if last in kinds or (isinstance(named, Class) and any(occurrences(kind, text_of(named)) for kind in kinds)):
            return True
    return False
