"""Names that differ by the split they are of alone: `train_loader` and `val_loader`, as variables or as attributes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from mlcheck.lint.nodes import is_name, last_name, walk
from mlcheck.lint.sites.model import Class, Function
from mlcheck.lint.values import split_of_name
from mlcheck.lint.words import lines_with

_SPLITS = ("train", "val", "valid", "validation", "test", "eval", "dev")


def alike(names: Iterable[str]) -> list[list[str]]:
    """Pairs of names that differ by their split alone; of three, those for evaluation each with that for training."""
    stems: dict[str, list[str]] = {}
    for name in names:
        if (stem := _stem(name)) and split_of_name(name):
            stems.setdefault(stem, []).append(name)
    pairs = [names for names in stems.values() if len(names) == 2]
    for names in stems.values():
        if len({split_of_name(name) for name in names}) == len(names) == 3:
            trained = next(name for name in names if split_of_name(name) == "train")
            pairs += [[name, trained] for name in names if name != trained]
    return pairs


def attribute_pairs(cls: Class) -> Iterator[tuple[str, str]]:
    """`self.val_loader` and `self.train_loader`, the first only ever set, or asked for its length."""
    for names in alike(cls.attributes):
        for unread, other in (names, names[::-1]):
            if split_of_name(unread) == split_of_name(other):
                continue
            said = re.compile(rf"(?<!len\(self)\.{unread}\b|[\"']{unread}[\"']")
            files = cls.file.sites.mentioning([unread], tests=True)
            lines = [line for file in files for line in lines_with(unread, file.text)]
            given = [assigned.value for _, assigned in cls.attributes[unread] if assigned.value is not None]
            spoken = sum(len(said.findall(line)) for line in lines)
            spoken -= sum(len(said.findall(ast.unparse(value))) for value in given)  # `self.x = args.x`
            if spoken == len(cls.attributes[unread]):
                yield unread, other


def loops_over(method: Function, data: str) -> Iterator[tuple[ast.stmt, ast.expr]]:
    """`for batch in self.loader`, and loops that take `next(batches)` of `batches = iter(self.loader)`."""
    begun = {
        target.id: line.value
        for line in method.all(ast.Assign)
        for target in line.targets
        if isinstance(target, ast.Name) and ast.unparse(line.value) in (f"iter({data})", f"{data}.__iter__()")
    }
    for loop in method.all(ast.For):
        if data in ast.unparse(loop.iter):
            yield loop, loop.iter
    for around in (*method.all(ast.For), *method.all(ast.While)) if begun else ():
        for node in walk(around):
            if isinstance(node, ast.Call) and is_name(node.func, "next") and node.args:
                if (name := last_name(node.args[0])) in begun:
                    yield around, begun[name]


def _stem(name: str) -> str:
    """`_loader` of `train_loader`: the name without the word for its split."""
    words = name.lower().split("_")
    rest = [word for word in words if word not in _SPLITS]
    return "_".join(rest) if len(rest) == len(words) - 1 and rest else ""
