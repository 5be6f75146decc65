"""Rows that are put into an order which others that belong to them are not put into."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import is_name, last_name, walk
from mlcheck.lint.sites.data.row_origins import NOTHING, RowOrigins, Rows
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

_WORDS = ("sort(", "permutation(", "randperm(", "shuffle(")
_TENSORS = "torch.utils.data.TensorDataset"


class OrderedAlone(NamedTuple):
    """Where rows are put into the order, what stands beside them and keeps its own, and where they come together."""

    moved: Place
    rows: str
    left: str
    together: Place


class _Together(NamedTuple):
    """Expressions whose rows belong to each other. `by`: what says so, as `_are_of_one` asks it."""

    node: ast.AST
    parts: list[ast.expr]
    by: str


def ordered_alone(sites: Sites) -> Iterator[OrderedAlone]:
    """`x = x[order]`, and then `TensorDataset(x, y)`; `return padded[order], labels` of `zip(*batch)`."""
    for file in sites.mentioning(_WORDS) if sites.uses_torch else ():
        for scope, context in file.scopes():
            text = file.module.text_of(scope) if isinstance(scope, ast.stmt) else file.text
            if any(word in text for word in _WORDS):
                yield from _in_scope(file, scope, context)


def _in_scope(file: File, scope: ast.AST, context: Context) -> Iterator[OrderedAlone]:
    nodes = file.nodes_in(scope)
    orders = _orders(nodes)
    if not orders:
        return
    flow = RowOrigins(scope, nodes, orders)
    for together in _together(file, nodes, context):
        states = [(part, flow.at(part, together.node)) for part in together.parts]
        for order in orders:
            moved = [each for each in states if order in each[1].orders]
            left = [each for each in states if order not in each[1].orders]
            found = next(
                ((one, other) for one in moved for other in left if _are_of_one(one[1], other[1], together)), None
            )
            where = flow.moved.get(order)
            if found is not None and where is not None:
                beside, at = ast.unparse(found[1][0]), file.place(together.node, context)
                yield OrderedAlone(file.place(where, context), _named(where), beside, at)
                return


def _named(moved: ast.expr) -> str:
    """`x` of `x[order]`."""
    return ast.unparse(moved.value) if isinstance(moved, ast.Subscript) else ast.unparse(moved)


def _orders(nodes: list[ast.AST]) -> list[str]:
    """The names of orders that are bound once, and read for nothing but to put rows into them."""
    found = [name for node in nodes if isinstance(node, ast.Assign) and (name := _order(node, nodes))]
    stored = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    indices = {id(part) for node in nodes for part in _indices(node)}
    reads = [node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    alone = {name for name in found if stored.count(name) == 1}
    return [name for name in found if name in alone and all(id(n) in indices for n in reads if n.id == name)]


def _order(line: ast.Assign, nodes: list[ast.AST]) -> str:
    """`order` of `order = rng.permutation(len(x))`, `order = x.argsort()` and `values, order = x.sort()`."""
    match line:
        case ast.Assign(targets=[ast.Tuple(elts=[_, ast.Name(id=name)])], value=ast.Call(func=func)):
            return name if last_name(func) == "sort" else ""
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=func) as made):
            drawn = last_name(func) in ("permutation", "randperm") and len(made.args) == 1 and _is_count(made.args[0])
            shuffled = "range(" in ast.unparse(made) and any(_shuffles(node, name) for node in nodes)
            return name if drawn or shuffled or last_name(func) == "argsort" else ""
    return ""


def _is_count(node: ast.expr) -> bool:
    text = ast.unparse(node)
    return text.startswith("len(") or text.endswith((".shape[0]", ".size(0)"))


def _shuffles(node: ast.AST, name: str) -> bool:
    return (
        isinstance(node, ast.Call)
        and last_name(node.func) == "shuffle"
        and len(node.args) == 1
        and is_name(node.args[0], name)
    )


def _indices(node: ast.AST) -> Iterator[ast.AST]:
    """What rows are taken by: `order` of `x[order]`, of `x.index_select(0, order)` and of `[x[i] for i in order]`."""
    match node:
        case ast.Subscript(slice=ast.Tuple(elts=[index, *_])) | ast.Subscript(slice=index):
            yield index
        case ast.Call(func=ast.Attribute(attr="index_select"), args=[*_, index]):
            yield index
        case ast.Call(func=func, args=[index]) if last_name(func) == "shuffle":
            yield index
        case ast.ListComp(elt=ast.Subscript(slice=taken), generators=[ast.comprehension(target=turn, iter=index)]):
            if ast.unparse(taken) == ast.unparse(turn):
                yield index


def _together(file: File, nodes: list[ast.AST], context: Context) -> Iterator[_Together]:
    """Where rows are put side by side: in a data set, cut alike, or returned of a batch."""
    for node in nodes:
        if isinstance(node, ast.Call) and len(node.args) > 1:
            if file.called(node, context) == _TENSORS:
                yield _Together(node, node.args, "rows")
            elif is_name(node.func, "zip"):
                yield _Together(node, node.args, "source")
            else:
                yield from (_Together(node, alike, "source") for alike in _cut_alike(node.args))
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
            yield _Together(node, node.value.elts, "sample")
            yield from (_Together(node, alike, "source") for alike in _cut_alike(node.value.elts))
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Dict):
            yield _Together(node, node.value.values, "sample")


def _cut_alike(parts: list[ast.expr]) -> Iterator[list[ast.expr]]:
    """`x[:n]` and `y[:n]`."""
    cut: dict[str, list[ast.expr]] = {}
    for part in parts:
        for node in walk(part):
            if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
                cut.setdefault(ast.unparse(node.slice), []).append(node)
                break
    yield from (alike for alike in cut.values() if len(alike) > 1)


def _are_of_one(moved: Rows, left: Rows, together: _Together) -> bool:
    """Whether they are different parts of the same rows."""
    if moved == NOTHING or left == NOTHING or not moved.is_apart_from(left):
        return False
    if together.by == "rows":
        return True
    return any(
        one.source == other.source and (together.by == "source" or (one.is_of_sample and other.is_of_sample))
        for one in moved.parts
        for other in left.parts
    )
