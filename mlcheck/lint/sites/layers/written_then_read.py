"""What is written over in place before the same line reads it, or in the forward pass of each batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.layers.modules import module_classes
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.project import Sites

_ADDS = ("add_", "sub_", "addcmul_", "addcdiv_", "lerp_")
_SCALES = ("mul_", "div_", "neg_", "zero_", "fill_", "clamp_", "sub_", "add_")
_MOVES = frozenset(["flip", "roll", "index_select", "fliplr", "flipud", "rot90"])
_PICKS = frozenset(["gather", "index_select", "take"])


def read_too_late(sites: Sites) -> Iterator[tuple[Call, str]]:
    """`x.mul_(share).add_(x.flip(0))`: by the time it is flipped, `x` holds what was multiplied."""
    for file in sites.mentioning(["_("]) if sites.uses_torch else ():
        for call in file.calls(*_ADDS):
            match call.owner:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=first)) if first in _SCALES:
                    given = [*call.node.args, *(word.value for word in call.node.keywords)]
                    if any(_moves(node, name) for each in given for node in walk(each)):
                        yield call, name


def moved_onto_itself(sites: Sites) -> Iterator[tuple[Call, str]]:
    """`x.scatter_(0, order, x)`: rows are read that earlier ones were written over."""
    for file in sites.mentioning(["scatter_(", "index_copy_("]) if sites.uses_torch else ():
        for call in file.calls("scatter_", "index_copy_"):
            source = call.argument("src", 2) or call.argument("source", 2)
            if isinstance(call.owner, ast.Name) and isinstance(source, ast.Name) and source.id == call.owner.id:
                yield call, source.id


def _moves(node: ast.AST, name: str) -> bool:
    """`x.flip(0)`, `torch.flip(x, [0])` and `x[order]`: other rows of the same tensor."""
    match node:
        case ast.Subscript(value=ast.Name(id=owner), slice=ast.Name()):
            return owner == name
        case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=moved)) if moved in _MOVES:
            return name in (owner, last_name(node.args[0]) if node.args else "")
    return False


def picked_for_good(sites: Sites) -> Iterator[tuple[Function, ast.Assign, str]]:
    """`self.alpha = self.alpha.gather(0, labels)` in `forward`: the next batch picks of what this one left."""
    for cls in sites.once(module_classes):
        for name in ("forward", "__call__"):
            forward = cls.methods.get(name)
            if forward is None or (not any(f"{pick}(" in forward.text for pick in _PICKS) and "[" not in forward.text):
                continue
            for line in forward.all(ast.Assign):
                kept = own_attribute(line.targets[0], forward) if len(line.targets) == 1 else ""
                if kept and _is_set_once_else(forward, kept) and _is_picked(forward, line.value, kept):
                    yield forward, line, kept


def _is_picked(forward: Function, value: ast.expr, kept: str) -> bool:
    """`self.alpha.gather(0, labels.view(-1))`, `self.alpha[labels]`, of what the forward pass is given."""
    match value:
        case ast.Call(func=ast.Attribute(value=owner, attr=attr), args=[*given]) if attr in _PICKS:
            index = given
        case ast.Subscript(value=owner, slice=one):
            index = [one]
        case _:
            return False
    names = {node.id for each in index for node in walk(each) if isinstance(node, ast.Name)}
    brought = set(forward.parameters) - {forward.receiver}
    plain = not any(isinstance(node, ast.Slice | ast.Constant) for node in index)
    return own_attribute(owner, forward) == kept and bool(names & brought) and (plain or len(index) > 1)


def _is_set_once_else(forward: Function, kept: str) -> bool:
    """Whether the constructor makes it, and no other method sets it: it is no state that goes on."""
    sets = forward.cls.attribute(kept) if forward.cls is not None else []
    others = {function.name for function, _ in sets if function is not forward}
    return others == {"__init__"} and not any(
        origin.name.endswith("Embedding")
        for function, each in sets
        if each.value is not None
        for origin in origins(function.file, each.value, each.context)
    )
