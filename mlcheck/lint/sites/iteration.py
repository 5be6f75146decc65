"""What one iteration of a loop brings, and what the loop goes over: seen through `enumerate` and progress bars."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mlcheck.lint.nodes import is_name, last_name, walk
from mlcheck.lint.sites.scopes import Context

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


class Iteration(NamedTuple):
    """`for number, brought in enumerate(over, start)`; `number` is None where the loop does not count."""

    brought: ast.expr
    over: ast.expr
    number: ast.expr | None = None
    start: ast.expr | None = None


class Item(NamedTuple):
    """Item `key` of what a loop brings from `over`: `y` of `for x, y in loader`, `b["y"]` of `for b in loader`."""

    key: int | str
    over: ast.expr
    loop: Context


def iteration_of(loop: ast.For | ast.AsyncFor | ast.comprehension) -> Iteration:
    turn = Iteration(loop.target, loop.iter)
    while isinstance(turn.over, ast.Call) and turn.over.args:
        call = turn.over
        name = last_name(call.func)
        if name == "tqdm":
            turn = turn._replace(over=call.args[0])
        elif name == "enumerate" and isinstance(turn.brought, ast.Tuple) and len(turn.brought.elts) == 2:
            starts = [*call.args[1:], *(word.value for word in call.keywords)]
            turn = Iteration(turn.brought.elts[1], call.args[0], turn.brought.elts[0], starts[0] if starts else None)
        else:
            break
    return turn


def counter_of(loop: ast.AST) -> tuple[str, int] | None:
    """The variable that numbers the turns of a loop, and its first value."""
    match iteration_of(loop) if isinstance(loop, ast.For) else None:
        case Iteration(number=ast.Name(id=name), start=None):
            return name, 0
        case Iteration(number=ast.Name(id=name), start=ast.Constant(value=int() as start)):
            return name, start
        case Iteration(brought=ast.Name(id=name), over=ast.Call(func=ast.Name(id="range"), args=[_])):
            return name, 0
    return None


def item_of_iteration(node: ast.expr, context: Context) -> Item | None:
    """Which item of an iteration's batch a name or a subscript stands for, if a loop around it brings one."""
    batch, key = node, None
    match node:
        case ast.Subscript(value=inner, slice=ast.Constant(value=int() | str() as asked)):
            batch, key = inner, asked
    if not isinstance(batch, ast.Name):
        return None
    for outer in context.outwards():
        if outer.kind == "function":
            return None
        for loop in _loops_of(outer):
            turn = iteration_of(loop)
            parts = turn.brought.elts if isinstance(turn.brought, ast.Tuple | ast.List) else []
            places = [place for place, part in enumerate(parts) if is_name(part, batch.id)]
            if key is None and len(places) == 1:
                return Item(places[0], turn.over, outer)
            if key is not None and is_name(turn.brought, batch.id):
                return Item(key, turn.over, outer)
    return None


def _loops_of(context: Context) -> list[ast.For | ast.comprehension]:
    if isinstance(context.node, ast.For):
        return [context.node]
    return list(context.node.generators) if isinstance(context.node, _COMPREHENSIONS) else []


def part_of(made: ast.expr, key: int | str) -> ast.expr | None:
    """The item of a tuple or of a dictionary that is written down."""
    match made:
        case ast.Tuple(elts=parts) if isinstance(key, int) and key < len(parts):
            return parts[key]
        case ast.Dict(keys=keys, values=values):
            held = [k.value if isinstance(k, ast.Constant) else None for k in keys]
            return values[held.index(key)] if key in held else None
    return None


def handed_through(nodes: Iterable[ast.AST]) -> Iterator[ast.expr]:
    """`loader` of `for batch in loader: yield batch`, in a generator that goes round and round."""
    for loop in nodes:
        if isinstance(loop, ast.For) and isinstance(loop.target, ast.Name):
            given = (node.value for line in loop.body for node in walk(line) if isinstance(node, ast.Yield))
            if any(isinstance(value, ast.Name) and value.id == loop.target.id for value in given):
                yield loop.iter
