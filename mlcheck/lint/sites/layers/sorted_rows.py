"""Rows that a forward pass sorts by their length, for packing, and returns in that order."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import reads_of, stores_of, walk
from mlcheck.lint.sites.guards import in_forward
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.origins import returns
from mlcheck.lint.sites.project import Sites

_PACK = "torch.nn.utils.rnn.pack_padded_sequence"


def left_sorted(sites: Sites) -> Iterator[tuple[Place, Place]]:
    """Where a forward pass returns what it made of `x[order]`, and where it sorted: nothing undoes the order."""
    for pack in sites.calls(_PACK):
        function = in_forward(pack)
        for order, made in _orders(function) if function is not None else ():
            assert function is not None
            given = list(returns(function))
            if len(given) == 1 and _sorts_one(function, order, given[0]):
                yield function.place(given[0]), made.place


def _orders(function: Function) -> Iterator[tuple[str, Call]]:
    """`lengths, order = lengths.sort(descending=True)`, `order = torch.argsort(lengths, descending=True)`."""
    for call in function.file.calls("sort", "argsort"):
        if call.function is not function or call.constant("descending") is not True:
            continue
        for node in function.nodes:
            target = node.targets[0] if isinstance(node, ast.Assign) and node.value is call.node else None
            if isinstance(target, ast.Tuple) and len(target.elts) == 2:
                target = target.elts[1]
            if isinstance(target, ast.Name):
                yield target.id, call


def _sorts_one(function: Function, order: str, given: ast.expr) -> bool:
    """Whether the order is read once or more, to sort one argument alone, and the lengths perhaps."""
    reads = reads_of(function.nodes, order)
    stores = stores_of(function.nodes, order)
    taken = [each for node in function.nodes if (each := _taken(node, order)) is not None]
    names = {ast.unparse(each) for each in taken}
    rows = {name for name in names if "len" not in name.lower()}
    if len(stores) != 1 or len(reads) != len(taken) or len(rows) != 1 or not rows <= set(function.parameters):
        return False
    return not any(isinstance(node, ast.Call) and "loss" in ast.unparse(node.func) for node in walk(given))


def _taken(node: ast.AST, order: str) -> ast.expr | None:
    """`x` of `x[order]`, of `x.index_select(0, order)` and of `torch.index_select(x, 0, order)`."""
    match node:
        case ast.Subscript(value=rows, slice=ast.Name(id=name)) if name == order:
            return rows
        case ast.Call(
            func=ast.Attribute(value=rows, attr="index_select"), args=[ast.Constant(value=0), ast.Name(id=name)]
        ) if name == order:
            return rows
        case ast.Call(
            func=ast.Attribute(attr="index_select"), args=[rows, ast.Constant(value=0), ast.Name(id=name)]
        ) if name == order:
            return rows
    return None
