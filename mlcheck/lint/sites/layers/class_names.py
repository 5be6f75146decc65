"""Layers that an initialisation tells apart by the names of their classes, and names that no class has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.sites.layers.initialising import fills
from mlcheck.lint.sites.layers.modules import LEARNING
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.project import Sites

_LAYERS = sorted(name.rpartition(".")[2] for name in LEARNING)
_CLASS_NAMES = re.compile(r"\w+\.__class__\.__name__|type\(\w+\)\.__name__")
_SHORTEST = 4


class Mistaken(NamedTuple):
    """A question for a class name that is never answered by yes, and the layer that is meant."""

    function: Function
    node: ast.expr
    layer: str


def never_named(sites: Sites) -> Iterator[Mistaken]:
    """`m.__class__.__name__ == "Conv"` and `classname.find("linear") != -1` where weights are filled."""
    for file in sites.mentioning(["__name__"]):
        for function in file.functions if "__class__" in file.text or "type(" in file.text else ():
            if not _CLASS_NAMES.search(function.text) or not fills(function):
                continue
            own = sites.once(_class_names)
            for node, word, whole in _asked(function):
                layer = _meant(word, own, whole)
                if layer and not (whole and _is_imported(sites, word)):
                    yield Mistaken(function, node, layer)


def _class_names(sites: Sites) -> list[str]:
    return [cls.name for cls in sites.classes]


def _asked(function: Function) -> Iterator[tuple[ast.expr, str, bool]]:
    """Each question, the word that it asks for, and whether that is the whole name."""
    held = {
        target.id
        for node in function.nodes
        if isinstance(node, ast.Assign) and _CLASS_NAMES.fullmatch(ast.unparse(node.value))
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in function.nodes:
        match node:
            case ast.Compare(left=name, ops=[ast.Eq()], comparators=[ast.Constant(value=str(word))]):
                whole = True
            case ast.Compare(left=ast.Constant(value=str(word)), ops=[ast.In()], comparators=[name]):
                whole = False
            case ast.Call(
                func=ast.Attribute(value=name, attr="find" | "startswith"), args=[ast.Constant(value=str(word))]
            ):
                whole = False
            case _:
                continue
        text = ast.unparse(name)
        if text in held or _CLASS_NAMES.fullmatch(text):
            yield node, word, whole


def _meant(word: str, own: list[str], whole: bool) -> str:
    """The layer whose name the word resembles; "" where some class may have the name."""
    if len(word) < _SHORTEST or any(word == name if whole else word in name for name in (*_LAYERS, *own)):
        return ""
    alike = [name for name in _LAYERS if name.casefold().startswith(word.casefold())]
    return alike[0] if alike else ""


def _is_imported(sites: Sites, word: str) -> bool:
    said = re.compile(rf"^\s*(?:from|import)\b.*\b{re.escape(word)}\b", re.MULTILINE)
    return any(said.search(file.text) for file in sites.mentioning([word]))
