"""Sums of a loop that nobody reads: behind it the name is given the mean of the last batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.nodes import is_name, loads, walk
from mlcheck.lint.sites.blocks import LoopSite, for_loops
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.words import lines_with


def dropped_sums(sites: Sites) -> Iterator[tuple[LoopSite, ast.AugAssign, ast.Assign]]:
    """Each loop that adds something up, where it does, and the line behind it that gives the name another value."""
    for file in sites.mentioning(["+"]):
        for loop in for_loops(file) if _adds_and_divides(file.text) else ():
            yield from ((loop, *dropped) for dropped in _dropped_in(loop))


def _adds_and_divides(text: str) -> bool:
    """Whether one name is added to, and given a quotient."""
    added = {line.partition("+=")[0].strip() for line in lines_with("+=", text)}
    return any("/" in line for name in added if name.isidentifier() for line in lines_with(f"{name} = ", text))


def _dropped_in(loop: LoopSite) -> Iterator[tuple[ast.AugAssign, ast.Assign]]:
    """`total += loss.item()` in the loop, and behind it `total = loss.item() / count`: nobody reads the sum."""
    for node in walk(loop.node):
        if not isinstance(node, ast.AugAssign) or not isinstance(node.op, ast.Add):
            continue
        name = node.target.id if isinstance(node.target, ast.Name) else ""
        if not name or isinstance(node.value, ast.Constant) or loads(loop.node, name):
            continue
        behind = (line for line in loop.after if any(is_name(part, name) for part in walk(line)))
        match next(behind, None):
            case ast.Assign(targets=[ast.Name(id=again)], value=ast.BinOp(left=left, op=ast.Div())) as line:
                if again == name and not loads(line.value, name) and ast.unparse(left) == ast.unparse(node.value):
                    yield node, line
