"""Views of a recurrent layer's last states, which have layers and directions first and the batch second."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import before_methods
from mlcheck.lint.sites.model import Call, Class, Function

BATCH_SIZE = pattern(r"(?:batch(?:_?size)?|bsz?|b|B|n|N)|\w+\.(?:size\(0\)|shape\[0\])|len\(\w+\)")
_SAME = ("contiguous", "clone", "detach")
_SEVERAL = (2, 3, 4, 6)


class StateView(NamedTuple):
    """A view that takes rows of layers, directions and samples for rows of the batch, `sizes` as it is written."""

    function: Function
    node: ast.Call
    name: str
    sizes: str


def state_views(layer: Call, attributes: set[str]) -> Iterator[StateView]:
    """`_, h = self.rnn(x)` of several layers or directions, and `h.view(batch, -1)` or `h.view(-1, 2 * hidden)`.

    `attributes` are those that hold the layer, as they are written. The states are followed into methods that the
    forward pass hands them to.
    """
    methods = layer.cls.methods.values() if layer.cls is not None else ()
    several = layer.constant("bidirectional", None, False) is True or layer.constant("num_layers", 2, 1) in _SEVERAL
    for method in methods if several else ():
        states = _states(method, attributes)
        if states and method.cls is not None:
            yield from _views(layer, method, states, stores=1)
            for function, names in _handed_on(method, method.cls, states):
                yield from _views(layer, function, names, stores=0)


def _states(forward: Function, attributes: set[str]) -> set[str]:
    found = set[str]()
    for node in forward.nodes:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            target = node.targets[0]
            if ast.unparse(node.value.func) in attributes and isinstance(target, ast.Tuple) and len(target.elts) == 2:
                second = target.elts[1]
                parts = second.elts if isinstance(second, ast.Tuple) else [second]
                found |= {part.id for part in parts if isinstance(part, ast.Name)}
    return found


def _handed_on(forward: Function, cls: Class, states: set[str]) -> Iterator[tuple[Function, set[str]]]:
    for node in forward.nodes:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        method = cls.methods.get(node.func.attr) if ast.unparse(node.func.value) == "self" else None
        if method is not None and method is not forward:
            given = zip(list(method.parameters)[1:], node.args, strict=False)
            yield method, {name for name, value in given if isinstance(value, ast.Name) and value.id in states}


def _views(layer: Call, function: Function, states: set[str], stores: int) -> Iterator[StateView]:
    """Those of names that are bound so often above, and so are still what the layer gave."""
    body = function.nodes
    names = [node for node in body if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    for node in body:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or len(node.args) < 2:
            continue
        owner = _whole(node.func.value)
        if node.func.attr not in ("view", "reshape") or not isinstance(owner, ast.Name) or owner.id not in states:
            continue
        above = [name for name in names if name.id == owner.id and name.lineno < node.lineno]
        if len(above) == stores and (_by_rows(node, owner.id, layer) or _by_width(node, layer)):
            text = ast.unparse(node.func.value)
            yield StateView(function, node, text, ", ".join(map(ast.unparse, node.args)))


def _whole(node: ast.expr) -> ast.expr:
    """`h` of `h.contiguous()`, `h[-2:]` and `h[:2]`, which still are several rows for each sample."""
    node = before_methods(node, _SAME)
    match node:
        case ast.Subscript(value=whole, slice=ast.Slice(lower=None, upper=ast.Constant(value=int() as count))):
            return whole if count > 1 else node
        case ast.Subscript(
            value=whole,
            slice=ast.Slice(
                lower=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as count)), upper=None, step=None
            ),
        ):
            return whole if count > 1 else node
    return node


def _by_rows(node: ast.Call, owner: str, layer: Call) -> bool:
    """`h.view(batch, -1)`, `h.view(batch, 2 * hidden)`."""
    rows, width, *rest = node.args
    own = (f"{owner}.size(1)", f"{owner}.shape[1]")
    of_batch = ast.unparse(rows) in own or BATCH_SIZE.fullmatch(ast.unparse(rows)) is not None
    return of_batch and not rest and (ast.unparse(width) == "-1" or _is_wider(width, layer))


def _by_width(node: ast.Call, layer: Call) -> bool:
    """`h.view(-1, 2 * hidden)`, and a last dimension of one: a row of two states that lie beside each other."""
    rows, width, *rest = node.args
    return ast.unparse(rows) == "-1" and [ast.unparse(one) for one in rest] in ([], ["1"]) and _is_wider(width, layer)


def _is_wider(width: ast.expr, layer: Call) -> bool:
    """Whether it is several times the layer's hidden size."""
    hidden = layer.argument("hidden_size", 1)
    if hidden is None:
        return False
    if isinstance(width, ast.Constant):
        size = layer.constant("hidden_size", 1)
        return isinstance(size, int) and isinstance(width.value, int) and size > 0 and width.value // size in _SEVERAL
    if not isinstance(width, ast.BinOp) or not isinstance(width.op, ast.Mult):
        return False
    sides = [width.left, width.right]
    times = [side.value for side in sides if isinstance(side, ast.Constant)]
    return times in ([2], [4]) and any(ast.unparse(side) in _names_of(hidden, layer) for side in sides)


def _names_of(hidden: ast.expr, layer: Call) -> set[str]:
    """How the class writes the hidden size: as the layer was given it, or an attribute that holds it."""
    text = ast.unparse(hidden)
    held = layer.cls.attributes.items() if layer.cls is not None else ()
    same = {
        f"self.{name}"
        for name, ((_, assigned), *others) in held
        if not others and assigned.value is not None and ast.unparse(assigned.value) == text
    }
    return {text, *same}
