"""Mixed samples: which share of an input is its own, and with which weight the loss of its own label counts."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import before_methods, last_name
from mlcheck.lint.sites.lines import Lines, all_lines
from mlcheck.lint.sites.origins import Origin, sole
from mlcheck.lint.sites.project import Sites

_SAME = ("float", "long", "to", "cuda", "view", "detach")


class Crossed(NamedTuple):
    """The mixture of losses, the mixture of inputs, and the share of a sample's own input."""

    loss: Place
    mixed: Place
    share: str


class Mixture(NamedTuple):
    """`share * own + (1 - share) * other`."""

    share: ast.expr
    own: ast.expr
    other: ast.expr


def crossed_shares(sites: Sites) -> Iterator[Crossed]:
    """`x = lam * x + (1 - lam) * x[order]`, and `(1 - lam) * loss(out, y) + lam * loss(out, y[order])`."""
    for file in sites.mentioning(["1 - ", "1. - ", "1.0 - ", "1-"]) if sites.uses_torch else ():
        for lines in all_lines(file):
            for node in lines.all(ast.BinOp):
                found = _mixture(node)
                if found is not None and isinstance(found.own, ast.Call) and isinstance(found.other, ast.Call):
                    yield from _of_losses(lines, node, found, found.own, found.other)


def _mixture(node: ast.BinOp) -> Mixture | None:
    if not isinstance(node.op, ast.Add) or not all(map(_is_product, (node.left, node.right))):
        return None
    for share, own in _factors(node.left):
        for rest, other in _factors(node.right):
            if _is_rest(rest, share):
                return Mixture(share, own, other)
            if _is_rest(share, rest):
                return Mixture(rest, other, own)
    return None


def _is_product(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)


def _factors(node: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    return [(node.left, node.right), (node.right, node.left)] if isinstance(node, ast.BinOp) else []


def _is_rest(node: ast.expr, share: ast.expr) -> bool:
    """`1 - share`."""
    match node:
        case ast.BinOp(left=ast.Constant(value=1 | 1.0), op=ast.Sub(), right=right):
            return ast.unparse(right) == ast.unparse(share)
    return False


def _of_losses(lines: Lines, node: ast.BinOp, losses: Mixture, own: ast.Call, other: ast.Call) -> Iterator[Crossed]:
    if ast.unparse(own.func) != ast.unparse(other.func) or len(own.args) != 2 or len(other.args) != 2:
        return
    labels = [_traced(lines, call.args[1]) for call in (own, other)]
    orders = [_order(found) for found in labels]
    share = _traced(lines, losses.share)
    # the weight `share` is that of the label in another's place, and of the sample's own input
    if share is None or orders[0] is None or orders[1] is not None:
        return
    for mixed, found in _mixed_inputs(orders[0]):
        known = sole(mixed.file, found.share, mixed.context)
        if known is not None and (known.node, known.item) == (share.node, share.item):
            yield Crossed(
                lines.file.place(node, lines.context),
                mixed.file.place(mixed.node, mixed.context),
                ast.unparse(found.share),
            )


def _traced(lines: Lines, node: ast.expr) -> Origin | None:
    found = sole(lines.file, before_methods(node, _SAME), lines.context)
    return found._replace(node=before_methods(found.node, _SAME)) if found is not None else None


def _order(found: Origin | None) -> Origin | None:
    """Where labels are put in another order: `y[order]`."""
    is_picked = found is not None and isinstance(found.node, ast.Subscript) and isinstance(found.node.slice, ast.Name)
    return found if is_picked else None


def _mixed_inputs(order: Origin) -> Iterator[tuple[Origin, Mixture]]:
    """`lam * x + (1 - lam) * x[order]`, in the function that has put the labels in that order."""
    name = last_name(order.node.slice) if isinstance(order.node, ast.Subscript) else ""
    function = order.file.function_around(order.context)
    for node in Lines(order.file, function).all(ast.BinOp):
        found = _mixture(node)
        if found is None:
            continue
        match found.own, found.other:
            case ast.Name(id=own), ast.Subscript(value=ast.Name(id=of), slice=index) if own == of:
                if last_name(index) == name or _is_first(index, name):
                    yield order._replace(node=node), found


def _is_first(index: ast.expr, name: str) -> bool:
    """`[order, :]`."""
    return isinstance(index, ast.Tuple) and last_name(index.elts[0]) == name
