"""Data sets that augment their samples unless these are for training."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.model import Class, Function
from mlcheck.lint.values import split_of_name

_AUGMENTS = pattern(r"flip|rotat|crop|jitter|augment")
_DRAWS = pattern(r"\brandom\.|\brand(?:n|int)?\(|\bRandom[A-Z]\w+\(")
_MODES = ("train", "training", "is_train", "is_training")


def augmented_unless_training(cls: Class, kind: str) -> Iterator[Finding]:
    """`if self.phase != "train": x = self.augment(x)` in `__getitem__`, where nothing else is drawn."""
    item = cls.methods.get("__getitem__")
    if item is None:
        return
    found = [node for node in item.all(ast.If) if _is_unless_training(node.test, item) and _augments(item, node.body)]
    if len(found) != 1 or found[0] not in item.node.body or _augments(item, found[0].orelse):
        return
    if not _augments(item, [line for line in item.node.body if line is not found[0]], alone=False):
        yield Finding(
            f"The {kind} data is augmented, and the training data is not: `{cls.name}` asks for the other split",
            item.place(found[0]).location,
            help='`if self.split == "train":`',
        )


def _is_unless_training(test: ast.expr, item: Function) -> bool:
    """`self.phase != "train"`, `self.split == "val"`, `not self.train`."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=mode):
            return own_attribute(mode, item) in _MODES
        case ast.Compare(
            left=left, ops=[ast.Eq() | ast.NotEq() as how], comparators=[ast.Constant(value=str() as word)]
        ):
            split = split_of_name(word)
            held_out = split == "train" if isinstance(how, ast.NotEq) else split in ("val", "test")
            return bool(own_attribute(left, item)) and held_out
    return False


def _augments(item: Function, lines: list[ast.stmt], alone: bool = True) -> bool:
    """Whether they draw at random, here or in a method that they call; `alone`: to turn, cut out or colour."""
    texts = [ast.unparse(line) for line in lines]
    for line in lines:
        for node in walk(line):
            name = own_attribute(node.func, item) if isinstance(node, ast.Call) else ""
            method = item.cls.find(name) if name and item.cls is not None else None
            if method is not None and method is not item:
                texts.append(method.text)
    text = "\n".join(texts)
    return _DRAWS.search(text) is not None and (not alone or _AUGMENTS.search(text) is not None)
