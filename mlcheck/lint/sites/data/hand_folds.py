"""Folds that a program cuts by hand: `held = order[i * size : (i + 1) * size]`, and the rest of `order` to train on."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import assigned, last_name, loads, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.scopes import Context
from mlcheck.lint.values import split_of_name

_HELD = pattern(r"^(?:held|hold|holdout|heldout)(?:_|$)|(?:^|_)fold$")
_REST = pattern(r"^(?:rest|others?|remaining)(?:_|$)")
_JOINS = ("concatenate", "hstack", "cat", "concat", "chain")
_WITHOUT = ("setdiff1d", "delete", "difference")


class Cut(NamedTuple):
    """What is held out, `base[low:high]`, and the parts of the same to train on: `base[:to]`, `base[since:]`."""

    held: ast.Subscript
    low: str
    high: str
    to: ast.Subscript
    since: ast.Subscript

    @property
    def shared(self) -> ast.Subscript | None:
        """The part to train on that has what is held out."""
        if isinstance(self.since.slice, ast.Slice) and ast.unparse(self.since.slice.lower or self.held) == self.low:
            return self.since
        if isinstance(self.to.slice, ast.Slice) and ast.unparse(self.to.slice.upper or self.held) == self.high:
            return self.to
        return None


def cuts(nodes: Iterable[ast.AST]) -> Iterator[Cut]:
    """The folds that are cut in one scope, of names that are given one value each."""
    given = _given(nodes)
    held = [(name, value, bounds) for name, value in given if _is_held(name) and (bounds := _bounds(value)) is not None]
    for name, value in given if held else ():
        parts = _joined(value) if split_of_name(name) == "train" or _REST.search(name) else []
        for _, one, (low, high) in held:
            assert isinstance(one, ast.Subscript)
            base = ast.unparse(one.value)
            mine = [part for part in parts if ast.unparse(part.value) == base and isinstance(part.slice, ast.Slice)]
            ends = [part for part in mine if isinstance(part.slice, ast.Slice) and part.slice.lower is None]
            starts = [part for part in mine if isinstance(part.slice, ast.Slice) and part.slice.upper is None]
            if len(mine) == len(parts) == 2 and len(ends) == len(starts) == 1 and ends[0] is not starts[0]:
                yield Cut(one, low, high, ends[0], starts[0])


def deals_folds(file: File, loop: ast.For, context: Context) -> bool:
    """Whether each turn of a loop holds out another part by its number, and trains on the others."""
    number = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) and loop.target.elts else loop.target
    if not isinstance(number, ast.Name) or not _is_counted(loop.iter):
        return False
    nodes = walk(loop)
    if _deals(nodes, number.id):
        return True
    for call in (Call(file, node, context) for node in nodes if isinstance(node, ast.Call)):
        if not any(loads(arg, number.id) for arg in (*call.node.args, *(word.value for word in call.node.keywords))):
            continue
        named = file.resolve(call.node.func, context)
        for parameter in _parameters_of(call, named, number.id) if isinstance(named, Function) else ():
            if isinstance(named, Function) and _deals(named.nodes, parameter):
                return True
    return False


def _parameters_of(call: Call, named: Function, number: str) -> Iterator[str]:
    """The parameters that are given the number of the fold."""
    names = [name for name in named.parameters if name != named.receiver]
    for position, name in enumerate(names):
        value = call.argument(name, position)
        if isinstance(value, ast.Name) and value.id == number:
            yield name


def _is_counted(over: ast.expr) -> bool:
    """`range(folds)`, `enumerate(folds)`, also under a progress bar."""
    while isinstance(over, ast.Call) and last_name(over.func) in ("tqdm", "track") and over.args:
        over = over.args[0]
    return isinstance(over, ast.Call) and last_name(over.func) in ("range", "trange", "enumerate")


def _deals(nodes: list[ast.AST], number: str) -> bool:
    """Whether what is held out goes by that number, and the rest is all but that."""
    given = _given(nodes)
    following = {number}
    for name, value in given:
        if any(loads(value, each) for each in following):
            following.add(name)
    by_number = [(name, value) for name, value in given if any(_goes_by(value, each) for each in following)]
    held = [(name, value) for name, value in by_number if isinstance(value, ast.Subscript) and _is_held(name)]
    if not held:
        return False
    if any(any(loads(each.held.slice, name) for name in following) for each in cuts(nodes)):
        return True
    for name, value in given:
        if split_of_name(name) == "train" or _REST.search(name):
            if any(_leaves_out(value, each, number) for each, _ in held):
                return True
    return False


def _goes_by(value: ast.expr, number: str) -> bool:
    return isinstance(value, ast.Subscript) and loads(value.slice, number)


def _leaves_out(value: ast.expr, held: str, number: str) -> bool:
    """`np.setdiff1d(order, held)`, `[i for i in order if i not in held]`, `... for k in range(5) if k != fold`."""
    for node in walk(value):
        if isinstance(node, ast.Call) and last_name(node.func) in _WITHOUT and loads(node, held):
            return True
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            if isinstance(node.ops[0], ast.NotIn) and loads(node.comparators[0], held):
                return True
            if isinstance(node.ops[0], ast.NotEq) and loads(node, number):
                return True
    return False


def _given(nodes: Iterable[ast.AST]) -> list[tuple[str, ast.expr]]:
    """The names that are assigned once, with their values."""
    pairs = [
        (target.id, value)
        for node in nodes
        if isinstance(node, ast.Assign)
        for target, value in assigned(node)
        if isinstance(target, ast.Name)
    ]
    names = [name for name, _ in pairs]
    return sorted(((name, value) for name, value in pairs if names.count(name) == 1), key=lambda pair: pair[1].lineno)


def _is_held(name: str) -> bool:
    return split_of_name(name) in ("val", "test") or _HELD.search(name) is not None


def _bounds(value: ast.expr) -> tuple[str, str] | None:
    """Where a part begins and ends: of `order[a:b]`, and of one of several, `folds[i]`."""
    match value:
        case ast.Subscript(slice=ast.Slice(lower=ast.expr() as low, upper=ast.expr() as high, step=None)):
            return ast.unparse(low), ast.unparse(high)
        case ast.Subscript(slice=ast.Name(id=name)):
            return name, f"{name} + 1"
    return None


def _joined(value: ast.expr) -> list[ast.Subscript]:
    """The parts of `a[:i] + a[j:]` and `np.concatenate([a[:i], a[j:]])`; nothing where there are others."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        sides = [value.left, value.right]
        parts = [side for side in sides if isinstance(side, ast.Subscript)]
        return parts if len(parts) == 2 else []
    if isinstance(value, ast.Call) and last_name(value.func) in (*_JOINS, "list", "sum") and value.args:
        given = value.args[0]
        if isinstance(given, ast.List | ast.Tuple) and all(isinstance(part, ast.Subscript) for part in given.elts):
            return [part for part in given.elts if isinstance(part, ast.Subscript)]
        return _joined(given) if isinstance(given, ast.BinOp | ast.Call) else []
    return []
