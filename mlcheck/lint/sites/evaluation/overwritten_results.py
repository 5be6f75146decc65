"""Results that each turn of a loop overwrites: what was to gather them all, and sums that are divided turn by turn."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import is_name, loads, reads_of, stores_of, walk
from mlcheck.lint.sites.blocks import LoopSite, for_loops, straight
from mlcheck.lint.sites.project import Sites


class Overwritten(NamedTuple):
    """The loop, the line that overwrites, the name, and whether it is a sum that is divided in each turn."""

    loop: LoopSite
    line: ast.stmt
    name: str
    divided: bool


def overwritten_results(sites: Sites) -> Iterator[Overwritten]:
    for file in sites.mentioning(["= {}", "= []", "= dict()", " / ", "/= "]) if sites.uses_torch else ():
        for loop in for_loops(file):
            body = list(straight(loop.node.body))
            yield from _not_gathered(loop, body)
            yield from _divided_each_turn(loop, body)


def _not_gathered(loop: LoopSite, body: list[ast.stmt]) -> Iterator[Overwritten]:
    """`results = {}`, and `results = evaluate(loader)` for each loader."""
    begun = {name: line for line in loop.before if (name := _begun_empty(line))}
    if not begun or any(isinstance(node, ast.Break | ast.Return | ast.Yield) for node in walk(loop.node)):
        return
    for line in body:
        match line:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as value) if name in begun:
                inside = walk(loop.node)
                once = len(stores_of(inside, name)) == 1 and not reads_of(inside, name)
                between = [each for each in loop.before if each.lineno > begun[name].lineno]
                of_turn = any(loads(value, each.id) for each in walk(loop.node.target) if isinstance(each, ast.Name))
                if once and of_turn and not any(_touches(each, name) for each in between) and _is_returned(loop, name):
                    yield Overwritten(loop, line, name, divided=False)


def _begun_empty(line: ast.stmt) -> str:
    match line:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict(keys=[]) | ast.List(elts=[])):
            return name
        case ast.Assign(
            targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="dict" | "list"), args=[], keywords=[])
        ):
            return name
    return ""


def _touches(line: ast.stmt, name: str) -> bool:
    return any(is_name(node, name) for node in walk(line))


def _is_returned(loop: LoopSite, name: str) -> bool:
    """Whether it is what the function returns behind the loop, untouched."""
    for line in loop.after:
        if isinstance(line, ast.Return):
            return is_name(line.value, name)
        if _touches(line, name):
            return False
    return False


def _divided_each_turn(loop: LoopSite, body: list[ast.stmt]) -> Iterator[Overwritten]:
    """`total += loss.item()`, `total = total / steps`, both in each turn."""
    added = [line.target.id for line in body if isinstance(line, ast.AugAssign) and isinstance(line.target, ast.Name)]
    for line in body if added else ():
        name, size = _division(line)
        if name not in added or size is None:
            continue
        stores = stores_of(walk(loop.node), name)
        sums = [
            n for n in body if isinstance(n, ast.AugAssign) and isinstance(n.op, ast.Add) and is_name(n.target, name)
        ]
        counts = _is_count(loop, body, size)
        if len(stores) == 2 and len(sums) == 1 and sums[0].lineno < line.lineno and counts:
            if any(stores_of(walk(each), name) for each in loop.before):
                yield Overwritten(loop, line, name, divided=True)


def _division(line: ast.stmt) -> tuple[str, ast.expr | None]:
    match line:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.BinOp(left=ast.Name(id=same), op=ast.Div(), right=size)):
            return (name, size) if name == same else ("", None)
        case ast.AugAssign(target=ast.Name(id=name), op=ast.Div(), value=size):
            return name, size
    return "", None


def _is_count(loop: LoopSite, body: list[ast.stmt], size: ast.expr) -> bool:
    """`steps`, which each turn counts; `i + 1`; `len(loader)` of what the loop goes over."""
    match size:
        case ast.Call(func=ast.Name(id="len"), args=[over]):
            return ast.unparse(over).removesuffix(".dataset") in ast.unparse(loop.node.iter)
        case ast.BinOp(left=ast.Name(id=name), op=ast.Add(), right=ast.Constant(value=1)):
            return any(is_name(node, name) for node in walk(loop.node.target))
        case ast.Name(id=name):
            counts = (line for line in body if isinstance(line, ast.AugAssign) and isinstance(line.op, ast.Add))
            return any(is_name(line.target, name) for line in counts)
    return False
