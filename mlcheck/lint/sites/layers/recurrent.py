"""What the recurrent layers of a module return: which dimension is time, and which way they read."""

from __future__ import annotations

import ast

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import is_name
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.latest import latest, source
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.scopes import Context

RECURRENT = {"torch.nn.LSTM": 4, "torch.nn.GRU": 4, "torch.nn.RNN": 5}
"""The recurrent layers, and the position of `batch_first` in what they are given."""
_SWAPPED = (["0", "1"], ["1", "0"])


class Outputs(NamedTuple):
    """All steps of what a layer returned: its constructor, the call that gave them and where that stands."""

    layer: Call
    call: ast.Call
    context: Context

    @property
    def batch_first(self) -> bool | None:
        told = self.layer.constant("batch_first", RECURRENT[self.layer.name], default=False)
        return told if isinstance(told, bool) else None

    @property
    def both_ways(self) -> bool:
        return self.layer.constant("bidirectional", RECURRENT[self.layer.name] + 2, default=False) is True


def outputs(file: File, node: ast.expr, context: Context) -> Outputs | None:
    """`out` of `out, state = self.rnn(x)`, and `self.rnn(x)[0]`; None of anything else."""
    node, context = source(file, node, context)
    if isinstance(node, ast.Name):
        bound = latest(file, node, context)
        if bound is None or bound.kind != "item" or bound.item != 0 or not isinstance(bound.value, ast.expr):
            return None
        node, context = bound.value, bound.context
    elif isinstance(node, ast.Subscript) and ast.unparse(node.slice) == "0":
        node = node.value
    return _of_layer(file, node, context)


def state_of(file: File, node: ast.expr, context: Context) -> Outputs | None:
    """`h` of `out, h = self.rnn(x)` and of `out, (h, c) = self.rnn(x)`, where it was bound last; None of all else."""
    bound = latest(file, node, context) if isinstance(node, ast.Name) else None
    line = bound.node if bound is not None else None
    if bound is None or not isinstance(line, ast.Assign):
        return None
    match line.targets[0], line.value:
        case ast.Tuple(elts=[_, ast.Tuple(elts=[ast.Name(id=name), _])] | [_, ast.Name(id=name)]), made:
            return _of_layer(file, made, bound.context) if is_name(node, name) else None
        case ast.Name(), ast.Subscript(value=made, slice=ast.Constant(value=1)):
            layer = _of_layer(file, made, bound.context)
            return layer if layer is not None and layer.layer.name != "torch.nn.LSTM" else None
        case ast.Name(), ast.Call(func=ast.Attribute(value=inner, attr="view" | "reshape")):
            return state_of(file, inner, bound.context)
    return None


def _of_layer(file: File, node: ast.expr, context: Context) -> Outputs | None:
    """What a call of one of the module's own recurrent layers gives."""
    if not isinstance(node, ast.Call) or not node.args:
        return None
    function = file.function_around(context)
    name = own_attribute(node.func, function)
    sets = function.cls.attribute(name) if function is not None and function.cls is not None else []
    if len(sets) != 1 or not isinstance(sets[0][1].value, ast.Call):
        return None
    method, assigned = sets[0]
    made = method.file.called(assigned.value, assigned.context)
    if made not in RECURRENT or not isinstance(assigned.value, ast.Call):
        return None
    return Outputs(Call(method.file, assigned.value, assigned.context, made), node, context)


def dimension_of_size(file: File, size: ast.expr, context: Context, fed: Outputs) -> int | None:
    """Which dimension of what the layer was fed this is the size of: 1 for `x.size(0)` and `rnn(x.transpose(0, 1))`."""
    given, where = source(file, fed.call.args[0], fed.context)
    swapped = False
    if isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute):
        order = [ast.unparse(arg) for arg in given.args]
        if (given.func.attr == "transpose" and order in _SWAPPED) or (
            given.func.attr == "permute" and order == ["1", "0", "2"]
        ):
            given, swapped = source(file, given.func.value, where)[0], True
    found = _asked(file, size, context)
    if found is None or found[0] not in _names_of(file, given, fed.context) or found[1] not in (0, 1):
        return None
    return 1 - found[1] if swapped else found[1]


def _names_of(file: File, given: ast.expr, context: Context) -> list[str]:
    """`x`, and both of `torch.cat([x, y], dim=-1)`: their first dimensions are those of the whole."""
    if isinstance(given, ast.Call) and file.called(given, context) in ("torch.cat", "torch.concat"):
        joined = Call(file, given, context)
        parts = joined.argument("tensors", 0)
        if isinstance(parts, ast.List | ast.Tuple) and joined.constant("dim", 1, 0) in (-1, 2):
            return [part.id for part in parts.elts if isinstance(part, ast.Name)]
    return [given.id] if isinstance(given, ast.Name) else []


def _asked(file: File, size: ast.expr, context: Context) -> tuple[str, int] | None:
    """("x", 0) of `x.size(0)`, of `x.shape[0]`, and of `b` in `b, t, c = x.shape`."""
    node, context = source(file, size, context)
    if isinstance(node, ast.Name):
        bound = latest(file, node, context)
        whole = ast.unparse(bound.value) if bound is not None and bound.kind == "item" and bound.value else ""
        name = whole.removesuffix(".shape").removesuffix(".size()")
        return (name, bound.item) if bound is not None and name != whole else None
    text = ast.unparse(node)
    for index in (0, 1, 2):
        for ending in (f".size({index})", f".shape[{index}]"):
            if text.endswith(ending):
                return text.removesuffix(ending), index
    return None
