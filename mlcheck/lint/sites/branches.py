"""Branches in one form: negated tests, and an `if` that leaves early, are read as a test, what holds and what else."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.sites.blocks import blocks

_LEAVES = (ast.Continue, ast.Break, ast.Return, ast.Raise)
_OPPOSITE: dict[type, type[ast.cmpop]] = {ast.NotEq: ast.Eq, ast.IsNot: ast.Is, ast.NotIn: ast.In}
_HOLDERS = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module, ast.If, ast.For, ast.AsyncFor, ast.While),
    *(ast.With, ast.AsyncWith, ast.Try, ast.ExceptHandler, ast.match_case),
)


class Branch(NamedTuple):
    """What runs where a test holds, and what runs where it does not.

    Where one of both leaves the block by `continue` or the like, what follows on the `if` belongs to the other.
    """

    node: ast.If
    test: ast.expr
    held: list[ast.stmt]
    other: list[ast.stmt]

    def follows(self, arm: list[ast.stmt]) -> bool:
        """Whether that arm is, or goes on with, what stands below the `if`."""
        return arm is not self.node.body and arm is not self.node.orelse


def branches(nodes: Iterable[ast.AST]) -> Iterator[Branch]:
    """Those that stand right inside any of these nodes."""
    for node in nodes:
        if isinstance(node, _HOLDERS):
            for block in blocks(node):
                yield from branches_of(block)


def branches_of(block: list[ast.stmt]) -> Iterator[Branch]:
    for number, line in enumerate(block):
        if isinstance(line, ast.If):
            yield _branch(line, block[number + 1 :])


def _branch(line: ast.If, rest: list[ast.stmt]) -> Branch:
    body, orelse = line.body, line.orelse
    if rest and isinstance(body[-1], _LEAVES):
        orelse = [*orelse, *rest]
    elif rest and orelse and isinstance(orelse[-1], _LEAVES):
        body = [*body, *rest]
    test, turned = positive(line.test)
    return Branch(line, test, orelse, body) if turned else Branch(line, test, body, orelse)


def positive(test: ast.expr) -> tuple[ast.expr, bool]:
    """The test without negation, and whether it was negated. `a >= b` stays: neither it nor `a < b` holds of NaN."""
    turned = False
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, turned = test.operand, not turned
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in _OPPOSITE:
        opposite = _OPPOSITE[type(test.ops[0])]()
        test, turned = ast.copy_location(ast.Compare(test.left, [opposite], test.comparators), test), not turned
    return test, turned
