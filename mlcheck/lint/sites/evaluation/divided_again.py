"""Sums of what was divided by a number already, which are divided by that number once more."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import before_methods, stores, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

_ADDS = pattern(r"\+= |\.append\(|\b([\w.]+) = \1 \+ ")
_DIVIDES = pattern(r"/=? ?\(?\s*([\w.]+(?:\([\w.]*\))?)")
_PLAIN = ("item", "detach", "cpu", "float", "double", "mean", "clone", "numpy", "tolist")
_SUMS = ("sum", "np.sum", "torch.stack", "torch.tensor", "numpy.sum")


class Twice(NamedTuple):
    """The second division, the first one, and the number that both divide by."""

    second: Place
    first: Place
    number: str


class _Sum(NamedTuple):
    """A line of a loop that adds a share to `total`, which `begun` sets to nothing above the loop."""

    line: ast.AugAssign | ast.Call
    total: str
    share: ast.expr
    loop: ast.For | ast.While
    begun: ast.Assign


def divided_again(sites: Sites) -> Iterator[Twice]:
    """`total += loss / n` in a loop, and `total / n` after it."""
    for file in sites.mentioning(["backward(", "no_grad"]):
        numbers = {number for number, times in Counter(_DIVIDES.findall(file.text)).items() if times > 1}
        if file.is_test or not _ADDS.search(file.text) or all(number[0].isdigit() for number in numbers):
            continue
        for scope, context in file.scopes():
            if isinstance(scope, ast.FunctionDef) and not _ADDS.search(file.module.text_of(scope)):
                continue
            nodes = file.nodes_in(scope)
            divisions = list(_divisions(nodes))
            for added in _sums(nodes) if divisions else ():
                for share, number in _divided(file, context, nodes, added):
                    second = next((node for node, name, by in divisions if (name, by) == (added.total, number)), None)
                    if second is not None and _is_of_sum(nodes, added, second, number):
                        yield Twice(file.place(second, context), share, number)
                        break


def _sums(nodes: list[ast.AST]) -> Iterator[_Sum]:
    loops = [node for node in nodes if isinstance(node, ast.For | ast.While)]
    for line in nodes if loops else ():
        match line:
            case ast.AugAssign(target=target, op=ast.Add(), value=share):
                name = total = ast.unparse(target)
            case ast.Call(func=ast.Attribute(value=target, attr="append"), args=[share]):
                name = ast.unparse(target)
                total = f"sum of {name}"
            case _:
                continue
        around = [loop for loop in loops if _holds(loop, line)]
        above = [each for each in _given(nodes, name) if each.lineno < line.lineno and not _holds(around[-1:], each)]
        begun = above[-1] if above and around else None
        if isinstance(begun, ast.Assign) and around[:-1] == [loop for loop in around if _holds(loop, begun)]:
            yield _Sum(line, total, before_methods(share, _PLAIN), around[-1], begun)


def _divided(file: File, context: Context, nodes: list[ast.AST], added: _Sum) -> Iterator[tuple[Place, str]]:
    """Where what is added was divided in the same turn, and by what."""
    share = added.share
    lines = [line for line in _given(nodes, ast.unparse(share)) if _holds(added.loop, line)]
    last = next((line for line in reversed(lines) if line.lineno < added.line.lineno), None)
    if isinstance(last, ast.AugAssign):
        if isinstance(last.op, ast.Div):
            yield file.place(last, context), ast.unparse(last.value)
        return
    made = before_methods(last.value, _PLAIN) if last is not None else share
    for origin in _made(Origin(file, made, context)) if not isinstance(made, ast.Name) else ():
        node = origin.node
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            passed = origin.entered.passed(ast.unparse(node.right)) if origin.entered is not None else None
            yield origin.file.place(node, origin.context), ast.unparse(passed[0] if passed else node.right)


def _made(origin: Origin) -> Iterator[Origin]:
    """What a call returns, past the methods that leave a number what it is: `loss.item()`, where `loss = a / n`."""
    for each in origins(*origin[:3], origin.entered):
        bare = before_methods(each.node, _PLAIN)
        yield from [each] if bare is each.node else _made(each._replace(node=bare))


def _given(nodes: list[ast.AST], name: str) -> list[ast.Assign | ast.AugAssign]:
    """The lines that give a variable or attribute its value, from top to bottom."""
    found = [
        node
        for node in nodes
        if (isinstance(node, ast.Assign) and any(name == ast.unparse(each) for each in _targets(node)))
        or (isinstance(node, ast.AugAssign) and name == ast.unparse(node.target))
    ]
    return sorted(found, key=lambda node: node.lineno)


def _targets(node: ast.Assign) -> Iterator[ast.expr]:
    for target in node.targets:
        yield from target.elts if isinstance(target, ast.Tuple) else [target]


def _divisions(nodes: list[ast.AST]) -> Iterator[tuple[ast.AST, str, str]]:
    """`total / n` and `total /= n`: the node, `total` and `n`."""
    for node in nodes:
        match node:
            case ast.BinOp(left=left, op=ast.Div(), right=right) if not isinstance(right, ast.Constant):
                yield node, _whole(left), ast.unparse(right)
            case ast.AugAssign(target=target, op=ast.Div(), value=right) if not isinstance(right, ast.Constant):
                yield node, ast.unparse(target), ast.unparse(right)


def _whole(node: ast.expr) -> str:
    """`total` of `total.item()`; `sum of losses` of `sum(losses)`, `torch.stack(losses).sum()`."""
    summed = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "sum"
    node = before_methods(node, (*_PLAIN, "sum") if summed else _PLAIN)
    if isinstance(node, ast.Call) and len(node.args) == 1 and ast.unparse(node.func) in _SUMS:
        return f"sum of {ast.unparse(node.args[0])}"
    return ast.unparse(node)


def _holds(loop: ast.AST | list[ast.For | ast.While], node: ast.AST) -> bool:
    if isinstance(loop, list):
        return bool(loop) and _holds(loop[0], node)
    first, last = getattr(loop, "lineno", 0), getattr(loop, "end_lineno", 0) or 0
    return first < getattr(node, "lineno", 0) <= last


def _is_of_sum(nodes: list[ast.AST], added: _Sum, second: ast.AST, number: str) -> bool:
    """Whether the number stays the same, and the division is of the sum: below the loop, or where it begins anew."""
    if any(stores(added.loop, name.id) for name in walk(ast.parse(number)) if isinstance(name, ast.Name)):
        return False
    name = ast.unparse(added.begun.targets[0])
    if _holds(added.loop, second):
        return any(_holds(added.loop, line) and isinstance(line, ast.Assign) for line in _given(nodes, name))
    around = [node for node in nodes if isinstance(node, ast.For | ast.While) and _holds(node, added.begun)]
    return getattr(second, "lineno", 0) > added.line.lineno and all(_holds(loop, second) for loop in around)
