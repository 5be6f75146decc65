"""Feature maps, (batch, channels, height, width): what makes them for certain, and reshapes that scramble them."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import is_name, last_name
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.dimensions import positions
from mlcheck.lint.sites.model import Call, Function

_MAKES = frozenset(f"torch.nn.{name}2d" for name in ("Conv", "ConvTranspose", "BatchNorm", "MaxPool", "AvgPool"))
_KEEPS = frozenset(["relu", "leaky_relu", "gelu", "silu", "elu", "tanh", "sigmoid", "dropout", "contiguous"])
_KEEPS |= {"max_pool2d", "avg_pool2d"}
_ACTIVATIONS = frozenset(f"torch.nn.{name}" for name in ("ReLU", "LeakyReLU", "GELU", "SiLU", "ELU", "Tanh", "Dropout"))
_LAYERS = 8
_DIMENSIONS = 4


def is_joined_around(call: Call, owner: ast.expr, sizes: list[ast.expr]) -> bool:
    """`x.view(x.size(0), x.size(2), -1)`: the channels and the width are put together around the height.

    Not where the result is reshaped once more: it may be brought back.
    """
    if not isinstance(owner, ast.Name) or not is_feature_map(call, owner) or _is_reshaped_again(call):
        return False
    kept = [size for size in sizes if ast.unparse(size) != "1"]
    told = [positions(call, owner, size) for size in kept]
    rest = [number for number, size in enumerate(kept) if ast.unparse(size) == "-1"]
    if len(rest) != 1 or any(not places for number, places in enumerate(told) if number != rest[0]):
        return False
    named = {place for places in told for place in places}
    told[rest[0]] = sorted(set(range(_DIMENSIONS)) - named)
    order = [place for places in told for place in places]
    return len(named) > 1 and sorted(order) == list(range(_DIMENSIONS)) and order != sorted(order)


def channels_as_steps(forward: Function, layers: list[str]) -> ast.Call | None:
    """`x.view(x.size(0), x.size(1), 16)` of a feature map, given to one of these layers as it is."""
    for node in forward.nodes:
        if not isinstance(node, ast.Call) or own_attribute(node.func, forward) not in layers or not node.args:
            continue
        made, context = source(forward.file, node.args[0], forward.inner)
        match made:
            case ast.Call(func=ast.Attribute(value=ast.Name() as owner, attr="view" | "reshape"), args=[*sizes]):
                call = Call(forward.file, made, context)
                first = [positions(call, owner, size) for size in sizes[:2]]
                if len(sizes) == 3 and first == [[0], [1]] and is_feature_map(call, owner):
                    return made
    return None


def is_feature_map(call: Call, owner: ast.Name) -> bool:
    """Whether a two-dimensional layer of the module made it, the last but for activations."""
    function = call.function
    if function is None or function.cls is None:
        return False
    node, context = source(call.file, owner, call.context)
    for _ in range(_LAYERS):
        if not isinstance(node, ast.Call):
            return False
        sets = function.cls.attribute(own_attribute(node.func, function))
        made = {each.file.called(assigned.value, assigned.context) for each, assigned in sets}
        if made and made <= _MAKES:
            return True
        kept = (made and made <= _ACTIVATIONS) or (not made and last_name(node.func) in _KEEPS)
        inner = node.args[0] if node.args else getattr(node.func, "value", None)
        if not kept or not isinstance(inner, ast.expr):
            return False
        node, context = source(call.file, inner, context)
    return False


def _is_reshaped_again(call: Call) -> bool:
    held = call.file.names_given(call.node)
    return any(
        each.function is call.function
        and each.node.lineno > call.node.lineno
        and any(is_name(each.owner, name) for name in held)
        for each in call.file.calls("view", "reshape")
    )
