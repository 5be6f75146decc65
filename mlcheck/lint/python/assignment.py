"""Values bound to names, attributes and items."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from mlcheck.core.dataclasses import replace
from mlcheck.lint.interpret import containers
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.python import arithmetic, attributes
from mlcheck.lint.pytorch import cuts, freezing, holding, keeping, modes, snapshots
from mlcheck.lint.shapes import rules as shape_rules
from mlcheck.lint.values import (
    TRUE,
    Const,
    Object,
    Params,
    Select,
    Symbol,
    Tensor,
    Tuple,
    Value,
    split_of,
    split_of_name,
    traces_of,
    with_name,
)

_ACTIVATED = ("softmax", "sigmoid", "tanh", "log_softmax", "log_sigmoid")


def plain(m: Machine, node: ast.Assign) -> bool:
    value = m.evaluate(node.value)
    keeping.rebound(m, node, value)
    for target in node.targets:
        assign(m, target, value)
    return True


def annotated(m: Machine, node: ast.AnnAssign) -> bool:
    if node.value is not None:
        assign(m, node.target, m.evaluate(node.value))
    return True


def augmented(m: Machine, node: ast.AugAssign) -> bool:
    """`x += y`: a list whose items are known grows in place; all else is bound to the new value."""
    target = node.target
    reading: ast.expr = target
    if isinstance(target, ast.Name):
        reading = ast.copy_location(ast.Name(target.id, ast.Load()), target)
    old, change = m.evaluate(reading), m.evaluate(node.value)
    if isinstance(target, ast.Attribute) and target.attr == "grad":
        return True
    keeping.added(m, node, target, change)
    new = arithmetic.combine(m, type(node.op).__name__, old, change)
    if isinstance(new, Const) and isinstance(new.value, int | float):
        new = m.symbol()
    if isinstance(old, Object) and isinstance(containers.contents(m, old), Tuple):
        keeping.put_in(m, old, change, node)
        new_items = containers.contents(m, new)
        if isinstance(new_items, Tuple):
            open_ = new_items.open or m.repeats or len(new_items.items) > 32
            m.store.set(("items", old.id), Tuple(new_items.items[:32], open_))
            m.store.set(("tail", old.id), containers.tail(m, new))
            return True
    shape = shape_rules.of(old)  # a tensor keeps it, whatever is added
    assign(m, target, shape_rules.with_shape(new, shape) if shape is not None and shape.dims else new)
    return True


def assign(m: Machine, target: ast.expr, value: Value) -> None:
    """Bind a target: a name, an attribute, an item, or several of them."""
    snapshots.assigned(m, target, value)
    match target:
        case ast.Name(id=name):
            value = with_name(value, name)
            for one in (value.then, value.other) if isinstance(value, Select) else (value,):
                attributes.name_object(m, one, name)
            m.bind(name, value)
        case ast.Attribute():
            owner = m.evaluate(target.value)
            attributes.put(m, owner, target.attr, value, target)
            if target.attr == "requires_grad" and value == TRUE:
                cuts.begun(m, owner, target)
        case ast.Subscript():
            owner = m.evaluate(target.value)
            index = None if isinstance(target.slice, ast.Slice) else m.evaluate(target.slice)
            if index is not None:
                containers.store_item(m, owner, index, value)
                if modes.is_module(owner):  # `self.heads["mask"] = nn.Linear(...)`, of a `ModuleDict`
                    holding.put_among(m, owner, value, target)
                    modes.adopt(m, owner, value)
            if isinstance(owner, Symbol) and modes.is_module(value):
                freezing.freed_unseen(m)
            if not (isinstance(index, Const) and isinstance(index.value, str)):
                _written_into(m, target.value, owner, value)
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            _unpack(m, targets, value)
        case ast.Starred():
            assign(m, target.value, value)


def _written_into(m: Machine, into: ast.expr, owner: Value, value: Value) -> None:
    """A tensor that takes in what modules computed was computed by them too; scores with a part that went through
    an activation are neither the one nor the other."""
    if not isinstance(into, ast.Name) or not isinstance(owner, Symbol | Tensor):
        return
    if (
        isinstance(owner, Tensor)
        and isinstance(value, Tensor)
        and value.kind in _ACTIVATED
        and value.kind != owner.kind
    ):
        owner = replace(owner, kind="other")
        m.bind(into.id, owner)
    if not traces_of(value) <= owner.traces:
        m.bind(into.id, replace(owner, traces=owner.traces | traces_of(value)))


def in_place(m: Machine, node: ast.expr, result: Value) -> None:
    """`x.fill_(0)` as a statement: what is known of the old values is not known of the new ones."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name) as into, attr=method)) if _changes(method):
            owner = m.evaluate(into)
            if isinstance(owner, Tensor) and isinstance(result, Tensor):
                m.bind(name, result)
            else:
                _written_into(m, into, owner, result)
        case ast.Call(func=ast.Attribute(value=ast.Name() | ast.Attribute() as into, attr="extend" | "append")):
            if all(isinstance(held, Params) for held in holding.either(m.evaluate(into))):
                assign(m, into, result)
        case ast.Call(func=ast.Attribute(value=ast.Subscript(value=into), attr=method)) if _changes(method):
            _written_into(m, into, m.evaluate(into), result)


def _changes(method: str) -> bool:
    return method.endswith("_") and not method.endswith("__") and method != "requires_grad_"


def _unpack(m: Machine, targets: Sequence[ast.expr], value: Value) -> None:
    found = containers.items(m, value)
    starred = [index for index, target in enumerate(targets) if isinstance(target, ast.Starred)]
    if found is not None and not starred and len(found) == len(targets):
        for target, part in zip(targets, found, strict=True):
            assign(m, target, part)
        return
    if found is not None and len(starred) == 1 and len(found) >= len(targets) - 1:
        at, after = starred[0], len(targets) - starred[0] - 1
        middle = found[at : len(found) - after]
        parts: list[Value] = [*found[:at], containers.new_list(m, Tuple(tuple(middle))), *found[len(found) - after :]]
        for target, part in zip(targets, parts, strict=True):
            assign(m, target, part)
        return
    if isinstance(value, Params) and len(targets) == 2:
        # A parameter with its name, as `named_parameters()` gives it.
        assign(m, targets[0], m.symbol())
        assign(m, targets[1], value)
        return
    contents = containers.contents(m, value)
    for index, target in enumerate(targets):
        if isinstance(contents, Tuple) and index < len(contents.items) and isinstance(contents.items[index], Object):
            assign(m, target, contents.items[index])
            continue
        base = value.key if isinstance(value, Symbol) else m.fresh()
        split = split_of(value) or (target.id and split_of_name(target.id) if isinstance(target, ast.Name) else "")
        assign(m, target, Symbol(("item", base, index), "", split, traces_of(value)))
