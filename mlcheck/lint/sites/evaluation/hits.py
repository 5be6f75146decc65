"""Counts of what was guessed right: where two things are equal, summed or averaged."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import before_methods
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Call

_COUNTS = ("sum", "mean")
MOVES = ("item", "cpu", "numpy", "detach", "float", "double", "int", "long")
"""Methods behind which the numbers are still the same."""


class Counted(NamedTuple):
    """The call that counts where two things are equal, and both of them."""

    call: Call
    left: ast.expr
    right: ast.expr


def hits(file: File) -> Iterator[Counted]:
    """`(guess == labels).sum()`, `guess.eq(labels).float().mean()`, `torch.sum(guess == labels)`."""
    for call in file.calls(*_COUNTS):
        func = call.node.func
        by_name = file.resolve(func, call.context) in ("torch.sum", "torch.mean")
        if not isinstance(func, ast.Attribute) or (by_name and not call.node.args):
            continue
        match before_methods(call.node.args[0] if by_name else func.value, MOVES):
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
                yield Counted(call, left, right)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="eq"), args=[left, right]):
                yield Counted(call, left, right)
            case ast.Call(func=ast.Attribute(value=left, attr="eq"), args=[right]):
                yield Counted(call, left, right)
