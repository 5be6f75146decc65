"""What `container[index]` is, and what a loop over a container, an iterator or a loader meets."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from mlcheck.lint.interpret import containers
from mlcheck.lint.interpret.joins import join_values
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.pytorch import datasets, holding
from mlcheck.lint.values import (
    Args,
    Class,
    Const,
    External,
    Object,
    Params,
    Select,
    Symbol,
    Table,
    Tensor,
    Tuple,
    Value,
    split_of,
    split_of_name,
    traces_of,
)

_UNROLL = 8
_FEW = 4
_NORMALISED = ("softmax", "log_softmax", "sigmoid", "log_sigmoid")


def finite(m: Machine, value: Value) -> list[Value] | None:
    """The items to unroll a loop over: few, and not mere numbers."""
    found = containers.contents(m, value)
    if isinstance(found, Table):
        keys = [Const(key) for key in found.items if not isinstance(key, tuple)]
        return list(keys) if not found.open and 0 < len(keys) <= _UNROLL else None
    if not isinstance(found, Tuple) or found.open or not 0 < len(found.items) <= _UNROLL:
        return None
    plain = all(isinstance(item, Const) and not isinstance(item.value, str) for item in found.items)
    unknown = all(isinstance(item, Symbol | Tensor) and item.shape is None for item in found.items)
    return None if plain or unknown else list(found.items)


def counted(value: Value) -> list[Value] | None:
    """The numbers of a `range` of a few."""
    if isinstance(value, Object) and value.type == "builtins.range" and len(value.args) == 1 and not value.kwargs:
        end = value.args[0]
        if isinstance(end, Const) and isinstance(end.value, int) and 0 < end.value <= _FEW:
            return [Const(number) for number in range(end.value)]
    return None


def turn_of(m: Machine, value: Value, turn: int) -> Value:
    """What a turn of a loop meets: from the second on the last of some layers, whose answer is that of the loop."""
    over = value.args[0] if isinstance(value, Object) and value.type == "builtins.enumerate" and value.args else value
    found, last = containers.contents(m, over), containers.tail(m, over)
    if turn == 1 or not isinstance(found, Tuple) or not found.open or not isinstance(last, Object):
        return element(m, value)
    return last if over is value else Tuple((m.symbol(), last))


def element(m: Machine, value: Value, column: int | None = None) -> Value:
    """What one turn of a loop over this value meets; `column` is its place in a `zip`."""
    if isinstance(value, Select):
        one = element(m, value.then)
        return _either(one, element(m, value.other)) if _is_of_params(value.other) else one
    found = containers.contents(m, value)
    if isinstance(found, Table):
        return m.symbol()
    if isinstance(found, Tuple):
        kinds = {type(item) for item in found.items}
        if len(found.items) == 1 or (found.items and kinds == {Object} and found.open):
            return found.items[0]
        owners = [item.owners for item in found.items if isinstance(item, Params) and item.owners]
        if owners and len(owners) == len(found.items):
            return Params(frozenset().union(*owners), one=True)
        if found.items and all(isinstance(item, Tuple) for item in found.items):
            return _blurred(m, found.items)
        if found.items and all(isinstance(item, Tensor) and item.kind == "loss" for item in found.items):
            return Tensor("loss", None, split_of(*found.items), traces_of(*found.items))
        return Symbol(("element", m.fresh()), "", split_of(*found.items), traces_of(*found.items))
    if isinstance(value, Params):
        holding.walked(m, value, column)
        return Params(value.owners, one=True)
    if isinstance(value, Object):
        return _element_of_object(m, value)
    if isinstance(value, Tensor) and value.kind in _NORMALISED:
        return Tensor(
            value.kind, value.place, value.split, value.traces, None, value.shape.row if value.shape else None
        )
    if isinstance(value, Symbol | Tensor):
        row = value.shape.row if value.shape else None
        return Symbol(("element", m.fresh()), "", containers.split_of_iterable(m, value), value.traces, row)
    return Symbol(("element", m.fresh()))


def _is_of_params(value: Value) -> bool:
    """`model.parameters()`, `model.named_parameters()`; of one model or another."""
    if isinstance(value, Select):
        return _is_of_params(value.then) and _is_of_params(value.other)
    if isinstance(value, Object):
        return value.type == "builtins.dict_items" and all(isinstance(arg, Params) for arg in value.args)
    return isinstance(value, Params)


def _either(one: Value, other: Value) -> Value:
    """A parameter of the one model or of the other; with its name, where both have one."""
    if isinstance(one, Params) and isinstance(other, Params):
        return Params(one.owners | other.owners, one=True)
    if isinstance(one, Tuple) and isinstance(other, Tuple) and len(one.items) == len(other.items):
        return Tuple(tuple(map(_either, one.items, other.items)))
    return one


def _blurred(m: Machine, rows: tuple[Value, ...]) -> Value:
    widths = {len(row.items) for row in rows if isinstance(row, Tuple)}
    if len(widths) != 1:
        return m.symbol()
    columns = zip(*(row.items for row in rows if isinstance(row, Tuple)), strict=True)
    return Tuple(tuple(Symbol(m.fresh(), "", split_of(*column), traces_of(*column)) for column in columns))


def _element_of_object(m: Machine, value: Object) -> Value:
    match value.type:
        case "builtins.enumerate":
            return Tuple((m.symbol(), element(m, value.args[0]))) if value.args else m.symbol()
        case "builtins.zip":
            return Tuple(tuple(element(m, arg, column) for column, arg in enumerate(value.args)))
        case "builtins.generator":
            return m.run_generator(value)
        case "builtins.dict_items":
            return Tuple((m.symbol(), element(m, value.args[0])))
    return datasets.batch(m, value) or Symbol(("element", m.fresh()), "", containers.split_of_iterable(m, value))


def item(m: Machine, owner: Value, index: Value, node: ast.Subscript) -> Value:
    """`owner[index]`."""
    if isinstance(owner, Select):
        chosen: Select = owner
        return m.branch(
            chosen.key, lambda: item(m, chosen.then, index, node), lambda: item(m, chosen.other, index, node)
        )
    found = containers.contents(m, owner)
    if isinstance(index, Const):
        if isinstance(found, Table) and index.value in found.items:
            return found.items[index.value]
        if isinstance(found, Tuple) and isinstance(index.value, int) and -len(found.items) <= index.value:
            if index.value < len(found.items) and (not found.open or index.value >= 0):
                return found.items[index.value]
    elif isinstance(found, Table) and found.items and not found.open:
        different = _different(found.items.values())
        if len(different) <= _UNROLL:
            return any_of(m, different, index)
    if isinstance(found, Table) and (alike := containers.any_alike(found)) and _are_of_one_kind(alike):
        return join_values(m, alike, None)
    if isinstance(found, Table) and list(map(type, found.items.values())) == [Params]:
        return next(iter(found.items.values()))  # `named[key]` of `named = {n: p for n, p in model.named_parameters()}`
    if isinstance(found, Tuple) and found.items and not isinstance(index, Const | Tuple):
        return turn_of(m, owner, m.loops[-1].turn if m.loops else 1)
    if isinstance(owner, Tensor):
        kind = owner.kind if owner.kind != "loss" else "other"
        return Tensor(kind, owner.place, owner.split, owner.traces)
    if isinstance(owner, Object) and (default := m.store.get(("default", owner.id))) is not None:
        made: Value = default
        return made
    if isinstance(owner, Object) and owner.cls and owner.cls.find("__getitem__"):
        return m.call_method(owner, "__getitem__", [index], {}, node)
    if isinstance(owner, Symbol):
        name = index.value if isinstance(index, Const) and isinstance(index.value, str) else ""
        part = index.value if isinstance(index, Const) and isinstance(index.value, str | int) else m.fresh()
        stored: Value | None = m.store.get(("a", owner.key, ("item", part)))
        if stored is not None:
            return stored
        return Symbol(("item", owner.key, part), name, owner.split or split_of_name(name), owner.traces)
    key = ("element", m.fresh()) if isinstance(owner, Object) and owner.cls else m.fresh()  # of a class that is a dict
    return Symbol(key, "", containers.split_of_iterable(m, owner), traces_of(owner))


def _are_of_one_kind(values: Sequence[Value]) -> bool:
    return len({value.kind if isinstance(value, Tensor) else "" for value in values}) == 1 and isinstance(
        values[0], Tensor
    )


def entry(m: Machine, owner: Symbol, args: Args) -> Value | None:
    """`config.get("loss", "ce")`: asked for the same again, it answers the same again."""
    asked = [arg.value for arg in args if isinstance(arg, Const)]
    if len(asked) < len(args) or not isinstance(asked[0], str):
        return None
    stored: Value | None = m.store.get(("a", owner.key, ("item", asked[0])))
    if stored is not None:
        return stored
    return Symbol(("get", owner.key, repr(asked)), "", owner.split or split_of_name(asked[0]), owner.traces)


def _different(options: Iterable[Value]) -> list[Value]:
    """Those that are not the same class, or function of a library, under a second name."""
    found: list[Value] = []
    for option in options:
        if not isinstance(option, Class | External) or option not in found:
            found.append(option)
    return found


def any_of(m: Machine, options: list[Value], index: Value) -> Value:
    """An entry chosen by an unknown key: each is possible, told apart by what the key would equal."""
    chosen = options[-1]
    for position, option in enumerate(options[-2::-1]):
        chosen = Select(("chosen", getattr(index, "key", None) or m.fresh(), position), option, chosen)
    return chosen
