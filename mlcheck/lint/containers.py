"""Lists, dicts, iterators and loaders: what is in them and what a loop over them meets."""

from __future__ import annotations

import ast
from typing import Any

from mlcheck.lint import calls, datasets, following, holding
from mlcheck.lint.machine import Machine
from mlcheck.lint.values import (
    Const,
    Function,
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
_SPLIT_WORDS = ("split", "mode", "phase", "subset", "partition", "image_set", "stage")
_LOADERS = ("DataLoader", "StatefulDataLoader", "FastDataLoader", "DataLoaderX")


def new_list(m: Machine, items: Tuple) -> Object:
    made = Object("builtins.list", m.fresh())
    m.store.set(("items", made.id), items)
    return made


def new_dict(m: Machine, items: Table) -> Object:
    made = Object("builtins.dict", m.fresh())
    m.store.set(("items", made.id), items)
    return made


def contents(m: Machine, value: Value) -> Tuple | Table | None:
    """The known contents of a container, None for anything else."""
    if isinstance(value, Tuple | Table):
        return value
    if isinstance(value, Object):
        found: Tuple | Table | None = m.store.get(("items", value.id))
        return found
    return None


def items(m: Machine, value: Value) -> list[Value] | None:
    """All items of a sequence of known length."""
    found = contents(m, value)
    return list(found.items) if isinstance(found, Tuple) and not found.open else None


def table(m: Machine, value: Value) -> Table | None:
    found = contents(m, value)
    return found if isinstance(found, Table) else None


def finite(m: Machine, value: Value) -> list[Value] | None:
    """The items to unroll a loop over: few, and not mere numbers."""
    found = contents(m, value)
    if isinstance(found, Table):
        keys = [Const(key) for key in found.items if not isinstance(key, tuple)]
        return list(keys) if not found.open and 0 < len(keys) <= _UNROLL else None
    if not isinstance(found, Tuple) or found.open or not 0 < len(found.items) <= _UNROLL:
        return None
    plain = all(isinstance(item, Const) and not isinstance(item.value, str) for item in found.items)
    unknown = all(isinstance(item, Symbol | Tensor) for item in found.items)
    return None if plain or unknown else list(found.items)


def element(m: Machine, value: Value) -> Value:
    """What one turn of a loop over this value meets."""
    if isinstance(value, Select):
        return element(m, value.then)
    found = contents(m, value)
    if isinstance(found, Table):
        return m.symbol()
    if isinstance(found, Tuple):
        kinds = {type(item) for item in found.items}
        if len(found.items) == 1 or (found.items and kinds == {Object} and found.open):
            return found.items[0]
        if found.items and all(isinstance(item, Tuple) for item in found.items):
            return _blurred(m, found.items)
        return Symbol(("element", m.fresh()), "", split_of(*found.items), traces_of(*found.items))
    if isinstance(value, Params):
        holding.walked(m, value)
        return Params(value.owners, one=True)
    if isinstance(value, Object):
        return _element_of_object(m, value)
    if isinstance(value, Symbol | Tensor):
        row = value.shape.row if value.shape else None
        return Symbol(("element", m.fresh()), "", split_of_iterable(m, value), value.traces, row)
    return Symbol(("element", m.fresh()))


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
            return Tuple(tuple(element(m, arg) for arg in value.args))
        case "builtins.generator":
            return following.run_generator(m, value)
        case "builtins.dict_items":
            return Tuple((m.symbol(), element(m, value.args[0])))
    return datasets.batch(m, value) or Symbol(("element", m.fresh()), "", split_of_iterable(m, value))


def item(m: Machine, owner: Value, index: Value, node: ast.Subscript) -> Value:
    """`owner[index]`."""
    if isinstance(owner, Select):
        chosen: Select = owner
        return m.branch(
            chosen.key, lambda: item(m, chosen.then, index, node), lambda: item(m, chosen.other, index, node)
        )
    found = contents(m, owner)
    if isinstance(index, Const):
        if isinstance(found, Table) and index.value in found.items:
            return found.items[index.value]
        if isinstance(found, Tuple) and isinstance(index.value, int) and -len(found.items) <= index.value:
            if index.value < len(found.items) and (not found.open or index.value >= 0):
                return found.items[index.value]
    elif isinstance(found, Table) and found.items and not found.open and len(found.items) <= _UNROLL:
        return _any_of(m, list(found.items.values()), index)
    if isinstance(found, Tuple) and found.items and not isinstance(index, Const | Tuple):
        return element(m, owner)
    if isinstance(owner, Tensor):
        kind = owner.kind if owner.kind != "loss" else "other"
        return Tensor(kind, owner.place, owner.split, owner.traces)
    if isinstance(owner, Object) and (default := m.store.get(("default", owner.id))) is not None:
        made: Value = default
        return made
    if isinstance(owner, Object) and owner.cls and owner.cls.find("__getitem__"):
        return calls.call_method(m, owner, "__getitem__", [index], {}, node)
    if isinstance(owner, Symbol):
        name = index.value if isinstance(index, Const) and isinstance(index.value, str) else ""
        part = index.value if isinstance(index, Const) and isinstance(index.value, str | int) else m.fresh()
        stored: Value | None = m.store.get(("a", owner.key, ("item", part)))
        if stored is not None:
            return stored
        return Symbol(("item", owner.key, part), name, owner.split or split_of_name(name), owner.traces)
    return Symbol(m.fresh(), "", split_of_iterable(m, owner), traces_of(owner))


def _any_of(m: Machine, options: list[Value], index: Value) -> Value:
    """An entry chosen by an unknown key: each is possible, told apart by what the key would equal."""
    chosen = options[-1]
    for position, option in enumerate(options[-2::-1]):
        chosen = Select(("chosen", getattr(index, "key", None) or m.fresh(), position), option, chosen)
    return chosen


def store_item(m: Machine, owner: Value, index: Value, value: Value) -> None:
    """`owner[index] = value`."""
    found = contents(m, owner)
    if isinstance(owner, Object) and isinstance(found, Table):
        key: Any = index.value if isinstance(index, Const) else ("?", m.fresh())
        if len(found.items) < 64:
            open_ = found.open or not isinstance(index, Const)
            m.store.set(("items", owner.id), Table({**found.items, key: value}, open_))
    elif isinstance(owner, Object) and isinstance(found, Tuple):
        if isinstance(index, Const) and isinstance(index.value, int) and not found.open:
            changed = list(found.items)
            if -len(changed) <= index.value < len(changed):
                changed[index.value] = value
            m.store.set(("items", owner.id), Tuple(tuple(changed)))
        else:
            m.store.set(("items", owner.id), Tuple((value,), True))
    elif isinstance(owner, Symbol) and isinstance(index, Const) and isinstance(index.value, str | int):
        m.store.set(("a", owner.key, ("item", index.value)), value)


def append(m: Machine, owner: Value, value: Value) -> None:
    found = contents(m, owner)
    if not isinstance(owner, Object) or not isinstance(found, Tuple):
        return
    if m.repeats or found.open:
        kept = found.items if len(found.items) < _UNROLL else found.items[:1]
        m.store.set(("items", owner.id), Tuple((*kept, value), True))
    elif len(found.items) < 64:
        m.store.set(("items", owner.id), Tuple((*found.items, value)))


def concatenate(m: Machine, left: Value, right: Value) -> Value | None:
    one, two = contents(m, left), contents(m, right)
    if isinstance(left, Params) or isinstance(right, Params):
        return merged_params(m, [left, right])
    if isinstance(one, Tuple) and isinstance(two, Tuple):
        joined = Tuple((*one.items, *two.items), one.open or two.open)
        return joined if isinstance(left, Tuple) else new_list(m, joined)
    return None


def merged_params(m: Machine, parts: list[Value]) -> Value | None:
    """Parameters of several modules together; None when a part is not known to be parameters."""
    owners: set[Any] = set()
    for part in parts:
        if isinstance(part, Params):
            owners |= part.owners
            continue
        inner = contents(m, part)
        members = list(inner.items.values()) if isinstance(inner, Table) else list(inner.items) if inner else None
        if members is None or (inner is not None and inner.open and not members):
            return None
        for member in members:
            if isinstance(member, Const):
                continue
            nested = merged_params(m, [member])
            if not isinstance(nested, Params):
                return None
            owners |= nested.owners
    return Params(frozenset(owners))


def split_of_iterable(m: Machine, value: Value) -> str:
    """Which part of the data a loader, a dataset or a batch belongs to; "" when unknown or contradictory."""
    if isinstance(value, Symbol):
        return value.split or split_of_name(value.name)
    if isinstance(value, Tensor | Tuple):
        return split_of(value)
    if not isinstance(value, Object):
        return ""
    name = m.store.get(("name", value.id)) or ""
    said = {split_of_name(name)}
    if value.type.rpartition(".")[2] in _LOADERS or value.type in ("builtins.enumerate", "builtins.zip"):
        said |= {split_of_iterable(m, arg) for arg in value.args[:4]}
        said |= {split_of_iterable(m, value.kwargs[key]) for key in ("dataset",) if key in value.kwargs}
    elif value.type == "builtins.generator" and value.args and isinstance(value.args[0], Function):
        said |= {split_of_name(value.args[0].info.name)}
    for key, argument in value.kwargs.items():
        if isinstance(argument, Const):
            if key in ("train", "is_train", "training") and isinstance(argument.value, bool):
                said.add("train" if argument.value else "test")
            if key in _SPLIT_WORDS and isinstance(argument.value, str):
                said.add(split_of_name(argument.value))
    said.discard("")
    if said == {"val", "test"}:
        return "val"
    return said.pop() if len(said) == 1 else ""
