"""Views of a recurrent layer's last states, which have layers and directions first and the batch second."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import before_methods, walk
from mlcheck.lint.sites.layers.recurrent import RECURRENT
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.project import Sites

BATCH_SIZE = pattern(r"(?:batch(?:_?size)?|bsz?|b|B|n|N)|\w+\.(?:size\(0\)|shape\[0\])|len\(\w+\)")
_TOLD = pattern(r"bidirectional|directions|layers? > 1|layers? != 1")
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
    for method in methods if _has_several(layer) is not False else ():
        states = _states(layer, method, attributes)
        if states and method.cls is not None:
            yield from _views(layer, method, states, stores=1)
            for function, names in _handed_on(method, method.cls, states):
                yield from _views(layer, function, names, stores=0)


def chosen_layers(sites: Sites) -> Iterator[Call]:
    """The layers made by a name that stands for one of several: `kind = nn.GRU if gated else nn.RNN`."""
    for file in sites.mentioning([name.rpartition(".")[2] for name in RECURRENT]):
        names = {name for last, names in file.walk.aliases.items() if f"torch.nn.{last}" in RECURRENT for name in names}
        for call in (each for name in names for each in file.calls(name)):
            bound = file.bindings(call.node.func.id, call.context) if isinstance(call.node.func, ast.Name) else []
            kinds = {
                file.resolve(each.value, each.context) if isinstance(each.value, ast.expr) else None for each in bound
            }
            named = [kind for kind in kinds if isinstance(kind, str) and kind in RECURRENT]
            if len(bound) > 1 and len(named) == len(kinds):
                yield Call(file, call.node, call.context, min(named))


def _has_several(layer: Call) -> bool | None:
    """Whether the layer has more than one layer or direction; None where that is a setting."""
    number = layer.constant("num_layers", 2, 1)
    both = layer.constant("bidirectional", RECURRENT[layer.name] + 2, False)
    if both is True or number in _SEVERAL:
        return True
    return False if number == 1 and both is False else None


def _is_told(layer: Call, function: Function, node: ast.Call) -> bool:
    """`if self.bidirectional or self.num_layers > 1:`, and what is done then; or a width of so many layers."""
    number = layer.argument("num_layers", 2)
    width = " ".join(map(ast.unparse, node.args[1:]))
    if number is not None and not isinstance(number, ast.Constant) and f"{ast.unparse(number)}" in width.split():
        return True
    for test in (each for each in function.nodes if isinstance(each, ast.If)):
        if any(node is part for line in test.body for part in walk(line)):
            text = ast.unparse(test.test)
            if _TOLD.search(text) and "not " not in text:
                return True
    return False


def _states(layer: Call, forward: Function, attributes: set[str]) -> set[str]:
    """As they are written: `h`, and `state[0]` of the pair that an LSTM returns."""
    found = set[str]()
    for node in forward.nodes:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            target = node.targets[0]
            if ast.unparse(node.value.func) in attributes and isinstance(target, ast.Tuple) and len(target.elts) == 2:
                second = target.elts[1]
                parts = second.elts if isinstance(second, ast.Tuple) else [second]
                names = {part.id for part in parts if isinstance(part, ast.Name)}
                pair = layer.name == "torch.nn.LSTM" and isinstance(second, ast.Name)
                found |= {f"{name}[{number}]" for name in names for number in (0, 1)} if pair else names
    return found


def _handed_on(forward: Function, cls: Class, states: set[str]) -> Iterator[tuple[Function, set[str]]]:
    for node in forward.nodes:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        method = cls.methods.get(node.func.attr) if ast.unparse(node.func.value) == "self" else None
        if method is not None and method is not forward:
            given = zip(list(method.parameters)[1:], node.args, strict=False)
            yield method, {name for name, value in given if ast.unparse(value) in states}


def _views(layer: Call, function: Function, states: set[str], stores: int) -> Iterator[StateView]:
    """Those of names that are bound so often above, and so are still what the layer gave."""
    body = function.nodes
    names = [node for node in body if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    for node in body:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or len(node.args) < 2:
            continue
        owner = _whole(node.func.value)
        root = owner.value if isinstance(owner, ast.Subscript) else owner
        if (
            node.func.attr not in ("view", "reshape")
            or ast.unparse(owner) not in states
            or not isinstance(root, ast.Name)
        ):
            continue
        above = [name for name in names if name.id == root.id and name.lineno < node.lineno]
        told = _is_told(layer, function, node)
        if not told and _has_several(layer) is None:
            continue
        if len(above) == stores and (_by_rows(node, ast.unparse(owner), layer, told) or _by_width(node, layer)):
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


def _by_rows(node: ast.Call, owner: str, layer: Call, told: bool) -> bool:
    """`h.view(batch, -1)`, `h.view(batch, 2 * hidden)`; any width where it is told that there are several."""
    rows, width, *rest = node.args
    own = (f"{owner}.size(1)", f"{owner}.shape[1]")
    of_batch = ast.unparse(rows) in own or BATCH_SIZE.fullmatch(ast.unparse(rows)) is not None
    return of_batch and not rest and (told or ast.unparse(width) == "-1" or _is_wider(width, layer))


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
