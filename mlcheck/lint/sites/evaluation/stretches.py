"""A name that stands for one sum after another: the lines from where one is begun to where the next is."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from mlcheck.lint.nodes import loads

Begun = Mapping[str, Sequence[int]]


def begun(nodes: Iterable[ast.AST], wanted: Collection[str]) -> Begun:
    """The lines on which each of the names is given a value that does not depend on what it held."""
    lines: dict[str, list[int]] = {}
    for node in nodes:
        for name in _names(node.targets) if isinstance(node, ast.Assign) else ():
            if name in wanted and isinstance(node, ast.Assign) and not _reads(node.value, name):
                lines.setdefault(name, []).append(node.lineno)
    return {name: sorted(those) for name, those in lines.items()}


def _names(targets: Sequence[ast.expr]) -> Iterator[str]:
    for target in targets:
        if isinstance(target, ast.Tuple | ast.List):
            yield from _names(target.elts)
        elif isinstance(target, ast.Name | ast.Attribute | ast.Subscript):
            yield ast.unparse(target)


def _reads(value: ast.expr, name: str) -> bool:
    return loads(value, name) if name.isidentifier() else name in ast.unparse(value)


def stretch(lines: Begun, name: str, line: int) -> int:
    """Which of the sums that the name stands for, one after the other, a line has to do with."""
    return bisect_right(lines.get(name, ()), line)
