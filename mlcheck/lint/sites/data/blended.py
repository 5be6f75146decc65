"""Samples that are mixed with others of their batch: `lam * x + (1 - lam) * x[order]`, or a patch of them pasted in."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import latest, source
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.origins import returns
from mlcheck.lint.sites.scopes import Context

_DRAWS = ("torch.randperm", "numpy.random.permutation")


class Weighed(NamedTuple):
    """`weight * one + (1 - weight) * other`."""

    weight: ast.expr
    one: ast.expr
    other: ast.expr


class Partners(NamedTuple):
    """What is taken of a batch for the partner of each sample, and the order, which two of the same `key` share."""

    of: str
    key: Hashable
    node: ast.AST


class Blend(NamedTuple):
    """A mixture of samples and their partners; `own`: whether the weight is that of the sample itself."""

    node: ast.AST
    weight: ast.expr
    own: bool
    partners: Partners


def weighed(node: ast.AST) -> Weighed | None:
    match node:
        case ast.BinOp(left=ast.BinOp(op=ast.Mult()) as one, op=ast.Add(), right=ast.BinOp(op=ast.Mult()) as other):
            for first, second in ((one, other), (other, one)):
                for rest, left in ((second.left, second.right), (second.right, second.left)):
                    weight = _complement(rest)
                    held = _without(first, weight) if weight is not None else None
                    if weight is not None and held is not None:
                        return Weighed(weight, held, left)
    return None


def _complement(node: ast.expr) -> ast.expr | None:
    """`lam` of `1 - lam`."""
    match node:
        case ast.BinOp(left=ast.Constant(value=1), op=ast.Sub(), right=weight):
            return weight
    return None


def _without(product: ast.BinOp, weight: ast.expr) -> ast.expr | None:
    text = ast.unparse(weight)
    sides = ((product.left, product.right), (product.right, product.left))
    return next((other for side, other in sides if ast.unparse(side) == text), None)


def blends(file: File, scope: ast.AST, context: Context) -> Iterator[Blend]:
    """The mixtures of a function, of what it mixes with partners out of the same batch."""
    for node in file.nodes_in(scope):
        mixed = weighed(node)
        for own, one, other in ((True, mixed.one, mixed.other), (False, mixed.other, mixed.one)) if mixed else ():
            taken = partners(file, other, context)
            if mixed is not None and taken is not None and taken.of == ast.unparse(one):
                yield Blend(node, mixed.weight, own, taken)


def pasted(file: File, scope: ast.AST, context: Context) -> Iterator[Partners]:
    """`x[:, :, a:b, c:d] = x[order][:, :, a:b, c:d]`, also `x[order, :, a:b, c:d]`."""
    for node in file.nodes_in(scope):
        match node:
            case ast.Assign(
                targets=[ast.Subscript(value=into)], value=ast.Subscript(value=whole, slice=index) as value
            ):
                taken = partners(file, whole, context)
                if taken is None and isinstance(index, ast.Tuple) and index.elts:
                    key = _order(file, index.elts[0], context)
                    taken = Partners(ast.unparse(whole), key, value) if key is not None else None
                if taken is not None and taken.of == ast.unparse(into):
                    yield taken._replace(node=node)


def partners(file: File, node: ast.expr, context: Context) -> Partners | None:
    """`x[order]`, `x[torch.randperm(n)]`, `x.flip(0)`, `x.roll(1, 0)`; `draw(x)` of a function that does so."""
    taken, where = source(file, node, context)
    match taken:
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Tuple(elts=[index, *rest])) if all(map(_is_whole, rest)):
            key = _order(file, index, where)
        case ast.Subscript(value=ast.Name(id=name), slice=index):
            key = _order(file, index, where)
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="flip"), args=[ast.Constant(value=0)]):
            key = "flip"
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="roll"), args=[by, ast.Constant(value=0)]):
            key = f"roll {ast.unparse(by)}"
        case ast.Call(args=[ast.Name(id=name)]) if draws_partners(file, taken, where):
            key = id(taken)
        case _:
            return None
    return Partners(name, key, taken) if key is not None else None


def _is_whole(index: ast.expr) -> bool:
    return isinstance(index, ast.Slice) and index.lower is index.upper is index.step is None


def _order(file: File, index: ast.expr, context: Context) -> Hashable | None:
    """What two reads in the same order have in common: the binding of `order`, or the draw that stands there."""
    if isinstance(index, ast.Name):
        bound = latest(file, index, context)
        return id(bound) if bound is not None and bound.kind in ("value", "param", "item") else None
    while isinstance(index, ast.Call) and isinstance(index.func, ast.Attribute) and index.func.attr in ("to", "cuda"):
        index = index.func.value
    if isinstance(index, ast.Slice):
        return "flip" if ast.unparse(index) == "::-1" else None
    return id(index) if file.called(index, context) in _DRAWS else None


def draws_partners(file: File, call: ast.expr, context: Context) -> bool:
    """Whether a function of the project draws an order for itself, and gives back its argument in that order."""
    named = file.resolve(call.func, context) if isinstance(call, ast.Call) else None
    if not isinstance(named, Function):
        return False
    given = list(returns(named))
    first = next((name for name in named.parameters if name != named.receiver), "")
    found = partners(named.file, given[0], named.inner) if len(given) == 1 else None
    return found is not None and found.of == first and _is_drawn_inside(named)


def mixes_by_draw(function: Function) -> bool:
    """Whether it mixes its first argument with partners in an order of its own drawing."""
    if ("rand" not in function.text and "permutation" not in function.text) or not _is_drawn_inside(function):
        return False
    first = next((name for name in function.parameters if name != function.receiver), "")
    mixed = list(blends(function.file, function.node, function.inner))
    return len(mixed) == 1 and mixed[0].partners.of == first


def _is_drawn_inside(function: Function) -> bool:
    """Whether each call draws anew: nothing seeds it, and the order is none of its arguments."""
    drawn = [
        node
        for node in walk(function.node)
        if isinstance(node, ast.Call) and last_name(node.func) in ("randperm", "permutation")
    ]
    return (
        len(drawn) == 1
        and "seed" not in function.text
        and not any(word.arg == "generator" for word in drawn[0].keywords)
    )
