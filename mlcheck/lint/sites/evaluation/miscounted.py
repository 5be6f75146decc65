"""Sums over the batches of a loop that are divided by what is not their number, though it was meant to be."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import is_length, last_name, stores, walk
from mlcheck.lint.sites.blocks import LoopSite, for_loops, straight
from mlcheck.lint.sites.iteration import iteration_of
from mlcheck.lint.sites.project import Sites


class Miscounted(NamedTuple):
    """The sum, where it is divided, and the counter that adds up indices: "" where `len(loader) + 1` was taken."""

    total: str
    division: Place
    counter: str
    loop: Place


def miscounted(sites: Sites) -> Iterator[Miscounted]:
    """`total += loss.item()` in a loop over `loader`, and `total / (len(loader) + 1)` or `total / (count + 1)` behind.

    `count += i` with the loop's own index adds up 0, 1, 2, ...
    """
    for file in sites.mentioning(["item()", "float("]):
        if "/" not in file.text or "for " not in file.text:
            continue
        for loop in for_loops(file):
            inside = [node for line in loop.node.body for node in walk(line)]
            if not any(isinstance(node, ast.Break | ast.Continue) for node in inside):
                yield from _of_loop(loop)


def _of_loop(loop: LoopSite) -> Iterator[Miscounted]:
    turn = iteration_of(loop.node)
    added = [
        line for line in straight(loop.node.body) if isinstance(line, ast.AugAssign) and isinstance(line.op, ast.Add)
    ]
    index = turn.number.id if isinstance(turn.number, ast.Name) and turn.start is None else ""
    counters = {
        line.target.id
        for line in added
        if index and isinstance(line.target, ast.Name) and isinstance(line.value, ast.Name) and line.value.id == index
    }
    counters = {name for name in counters if _is_begun(loop, name)}
    for line in added:
        total = line.target.id if isinstance(line.target, ast.Name) else ""
        if total and _is_of_batch(loop.node, line.value) and _is_begun(loop, total):
            yield from _divided(loop, total, ast.unparse(turn.over), counters)


def _divided(loop: LoopSite, total: str, over: str, counters: set[str]) -> Iterator[Miscounted]:
    for line in loop.after:
        for node in walk(line):
            match node:
                case ast.AugAssign(target=ast.Name(id=name), op=ast.Div(), value=by):
                    pass
                case ast.BinOp(left=ast.Name(id=name), op=ast.Div(), right=by):
                    pass
                case _:
                    continue
            told = _counter(by, over, counters) if name == total else None
            if told is not None:
                places = [loop.file.place(each, loop.context) for each in (node, loop.node)]
                yield Miscounted(total, places[0], told, places[1])
                return
        if any(stores(line, name) for name in (total, *counters)):
            return


def _counter(by: ast.expr, over: str, counters: set[str]) -> str | None:
    """The counter of indices that this is, or is one more than; "" of `len(loader) + 1`; None of all else."""
    one_more = isinstance(by, ast.BinOp) and isinstance(by.op, ast.Add) and ast.unparse(by.right) == "1"
    if isinstance(by, ast.BinOp) and one_more:
        by = by.left
    if one_more and is_length(by) and isinstance(by, ast.Call) and [ast.unparse(arg) for arg in by.args] == [over]:
        return ""
    return by.id if isinstance(by, ast.Name) and by.id in counters else None


def _is_begun(loop: LoopSite, name: str) -> bool:
    """Whether it is nought before the loop, and changed by one line of it alone."""
    before = [line for line in loop.before if stores(line, name)]
    value = before[-1].value if before and isinstance(before[-1], ast.Assign) else None
    return (
        isinstance(value, ast.Constant) and value.value == 0 and sum(stores(line, name) for line in loop.node.body) == 1
    )


def _is_of_batch(loop: ast.For, value: ast.expr) -> bool:
    """`loss.item()`, `float(loss)`, or a name that this turn gave such a number."""
    if isinstance(value, ast.Name):
        made = [line for line in loop.body if isinstance(line, ast.Assign) and stores(line, value.id)]
        return len(made) == 1 and not isinstance(made[0].value, ast.Name) and _is_of_batch(loop, made[0].value)
    return isinstance(value, ast.Call) and last_name(value.func) in ("item", "float")
