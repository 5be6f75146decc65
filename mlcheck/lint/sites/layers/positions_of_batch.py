"""Encodings of positions that run along the first dimension, before a layer that has the batch there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.names import canonical
from mlcheck.lint.nodes import before_methods, last_name, walk
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

_AXES = {"TransformerEncoderLayer": 6, "TransformerDecoderLayer": 6, "MultiheadAttention": 8, "Transformer": 9}
_STACKS = ("torch.nn.TransformerEncoder", "torch.nn.TransformerDecoder")
_FIRST = pattern(r"\.size\((?:dim=)?0\)|\.shape\[0\]|^len\(")
_STEPS_FIRST = pattern(
    r"\.transpose\(0, 1\)|\.transpose\(1, 0\)|\.permute\(1, 0, 2\)|unsqueeze\((?:dim=)?(?:1|-2)\)|, 1, \w+\)"
)


class PositionsOfBatch(NamedTuple):
    """Where the positions are added, and the layer behind that has the batch first."""

    added: Place
    layer: str
    made: Place


def positions_of_batch(sites: Sites) -> Iterator[PositionsOfBatch]:
    """`x + self.pe[: x.size(0)]`, with `pe` of shape (length, 1, width), and then a layer with `batch_first=True`."""
    for file in sites.mentioning(["batch_first"]):
        for cls in file.classes:
            forward = cls.methods.get("forward")
            for call in forward.all(ast.Call) if forward is not None else ():
                name = own_attribute(call.func, forward)
                made = _batch_first(cls, name) if name and call.args else None
                added = _adds(forward, *source(file, call.args[0], _where(forward, call))) if made and forward else None
                if made is not None and added is not None:
                    yield PositionsOfBatch(added, name, made.place)


def _where(function: Function, call: ast.Call) -> Context:
    found = next((each for each in function.file.calls(last_name(call.func)) if each.node is call), None)
    return found.context if found is not None else function.inner


def _batch_first(cls: Class, name: str) -> Call | None:
    """The layer that an attribute keeps, one by one or stacked, if it certainly has the batch first."""
    sets = cls.attribute(name)
    value, context = (sets[0][1].value, sets[0][1].context) if len(sets) == 1 else (None, None)
    if not isinstance(value, ast.Call) or context is None:
        return None
    file = sets[0][0].file
    if file.called(value, context) in _STACKS and value.args:
        inner, context = source(file, value.args[0], context)
        value = inner if isinstance(inner, ast.Call) else value
    kind = file.called(value, context).removeprefix("torch.nn.")
    call = Call(file, value, context)
    return call if kind in _AXES and call.constant("batch_first", _AXES[kind]) is True else None


def _adds(forward: Function, node: ast.expr, context: Context) -> Place | None:
    """Where positions are added along the first dimension to what a layer is given."""
    node = before_methods(node, ("to", "float", "contiguous"))
    if isinstance(node, ast.BinOp):
        return _added(forward)
    name = own_attribute(node.func, forward) if isinstance(node, ast.Call) else ""
    sets = forward.cls.attribute(name) if name and forward.cls is not None else []
    value = sets[0][1].value if len(sets) == 1 else None
    named = sets[0][0].file.resolve(value.func, sets[0][1].context) if isinstance(value, ast.Call) else None
    inner = named.find("forward") if isinstance(named, Class) else None
    if inner is not None:
        return _added(inner)
    dropped = isinstance(named, str) and canonical(named).startswith("torch.nn.Dropout")
    if dropped and isinstance(node, ast.Call) and node.args:
        return _adds(forward, *source(forward.file, node.args[0], context))
    return None


def _added(forward: Function) -> Place | None:
    """`x + self.pe[: x.size(0)]` in a class whose table has a dimension for the batch behind that of the steps."""
    if forward.cls is None or not _STEPS_FIRST.search(forward.cls.text):
        return None
    names = list(forward.parameters)[1:]
    for node in forward.all(ast.Subscript):
        part = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
        upper = part.upper if isinstance(part, ast.Slice) and part.lower is None else None
        if upper is None or not own_attribute(node.value, forward) or not _FIRST.search(ast.unparse(upper)):
            continue
        turned = any(word in forward.text for word in ("transpose", "permute", "rearrange", "swapaxes"))
        if not turned and any(isinstance(each, ast.Name) and each.id in names for each in walk(upper)):
            return forward.place(node)
    return None
