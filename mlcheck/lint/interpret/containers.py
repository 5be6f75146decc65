"""Lists and dicts: what is in them; which part of the data a loader goes over."""

from __future__ import annotations

from typing import Any

from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.values import (
    NONE,
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
)

_UNROLL = 8
_EACH = "each"
_SPLIT_WORDS = ("split", "mode", "phase", "subset", "partition", "image_set", "stage")
_LOADERS = ("DataLoader", "StatefulDataLoader", "FastDataLoader", "DataLoaderX")


def new_list(m: Machine, items: Tuple) -> Object:
    made = Object("builtins.list", m.fresh())
    m.store.set(("items", made.id), items)
    if items.items and not items.open:
        m.store.set(("tail", made.id), items.items[-1])
    return made


def tail(m: Machine, value: Value | None) -> Value | None:
    """The last item of a list, known also where how many stand before it is not."""
    found: Value | None = m.store.get(("tail", value.id)) if isinstance(value, Object) else None
    return found


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


def count(m: Machine, value: Value) -> int:
    """How many constants a list of them has; 0 where others may come to it, as to what begins empty."""
    held = items(m, value) or []
    return len(held) if all(isinstance(item, Const) for item in held) else 0


def table(m: Machine, value: Value) -> Table | None:
    found = contents(m, value)
    return found if isinstance(found, Table) else None


def of_pairs(m: Machine, value: Value) -> Table | None:
    """The table of `[("conv", layer), ("norm", other)]`, where all keys are known."""
    listed = contents(m, value)
    if not isinstance(listed, Tuple) or listed.open:
        return None
    held = {}
    for pair in listed.items:
        match contents(m, pair):
            case Tuple(items=(Const(value=key), inner), open=False):
                held[key] = inner
            case _:
                return None
    return Table(held)


def store_item(m: Machine, owner: Value, index: Value, value: Value) -> None:
    """`owner[index] = value`; of one of two owners, each is the one."""
    if isinstance(owner, Select):
        store_item(m, owner.then, index, value)
        store_item(m, owner.other, index, value)
        return
    found = contents(m, owner)
    if isinstance(owner, Object) and isinstance(found, Table):
        key: Any = index.value if isinstance(index, Const) else (_EACH if _holds_alike(found) else "?", m.fresh())
        if len(found.items) < 64:
            open_ = found.open or not isinstance(index, Const)
            kept = found.items if isinstance(index, Const) else _perhaps_replaced(m, found, value)
            m.store.set(("items", owner.id), Table({**kept, key: value}, open_))
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


def _perhaps_replaced(m: Machine, found: Table, value: Value) -> dict[Any, Value]:
    """The entries behind `losses[key] = value.item()`, which may have been any: no tensor is certain to stay."""
    if isinstance(value, Tensor):
        return found.items
    return {key: m.symbol() if isinstance(each, Tensor) else each for key, each in found.items.items()}


def _holds_alike(found: Table) -> bool:
    """Whether all that was ever put into a dictionary went there under keys that are not known: one after the other."""
    return all(isinstance(key, tuple) and key[0] == _EACH for key in found.items) and found.open == bool(found.items)


def any_alike(found: Table) -> list[Value]:
    """What any key gives of a dictionary that was filled under keys which are not known; empty for others."""
    return list(found.items.values()) if found.open and _holds_alike(found) else []


def append(m: Machine, owner: Value, value: Value) -> None:
    found = contents(m, owner)
    if not isinstance(owner, Object) or not isinstance(found, Tuple):
        return
    m.store.set(("tail", owner.id), value)
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
        if isinstance(left, Tuple):
            return joined
        made = new_list(m, joined)
        m.store.set(("tail", made.id), tail(m, right) if two.items or two.open else tail(m, left))
        return made
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
    if isinstance(value, Select):  # `DataLoader(test_set) if test_set is not None else None`
        sides = {split_of_iterable(m, side) for side in (value.then, value.other) if side != NONE}
        return sides.pop() if len(sides) == 1 else ""
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
