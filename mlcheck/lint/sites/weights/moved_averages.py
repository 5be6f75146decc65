"""Averages of weights that a loop moves towards another model."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.weights.left_behind import is_blended, iterates, model_in


class Moved(NamedTuple):
    """`average` and `followed` of `for a, p in zip(average.parameters(), followed.parameters()): a.lerp_(p, t)`."""

    average: ast.expr
    followed: ast.expr
    loop: Place
    method: Function


def moved_averages(sites: Sites) -> Iterator[Moved]:
    """Each pair of models whose parameters are gone through side by side, those of one blended into the other's."""
    for file in sites.mentioning([".parameters()"]):
        for call in file.calls("zip"):
            if len(call.node.args) != 2 or call.function is None:
                continue
            loop = next((node for node in walk(call.function.node) if iterates(node, call.node)), None)
            if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Tuple) or len(loop.target.elts) != 2:
                continue
            pairs = zip(call.node.args, loop.target.elts, strict=True)
            moved = [argument for argument, turn in pairs if is_blended(loop, ast.unparse(turn))]
            rest = [argument for argument in call.node.args if argument not in moved]
            if len(moved) == len(rest) == 1 and ast.unparse(moved[0]).endswith(".parameters()"):
                place = file.place(loop, call.context)
                yield Moved(model_in(moved[0]), model_in(rest[0]), place, call.function)
