"""What is known where two paths meet."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from mlcheck.core.dataclasses import replace
from mlcheck.lint.facts import GradMode, Mode, Place
from mlcheck.lint.interpret import guards
from mlcheck.lint.interpret.store import Delta, Key
from mlcheck.lint.values import Const, Select, Symbol, Table, Tensor, Tuple, Value, split_of, traces_of

if TYPE_CHECKING:
    from mlcheck.lint.interpret.machine import Machine

_MAX_SELECTS = 4
STATE = frozenset(["mode", "grads", "grad", "scaling"])


def join_cells(machine: Machine, cell: Key, values: Sequence[Any], key: Hashable) -> Any:
    """The join of one cell's differing values; None stands for never written."""
    tag = cell[0]
    present = [value for value in values if value is not None]
    if tag == "a" and len(present) < len(values):
        told = key if key is not None and len(values) == 2 else machine.fresh()
        machine.store.set(("partly", *cell[1:]), told if values[0] is not None else ("not", told))
    if tag in ("v", "a", "items"):
        if len(present) == 1:
            return present[0]
        return join_values(machine, present, key if len(present) == 2 == len(values) else None)
    if tag == "mode":
        unset = len(present) < len(values) and cell[1] not in machine.made  # else it was made on one of the paths
        return _joined_modes(frozenset([Mode("unknown")] if unset else ()).union(*present))
    if tag in ("grads", "scaling"):
        return None if tag == "grads" and not present else guards.united(present)
    if tag == "grad":
        return GradMode("unknown")
    if tag in ("optimizers", "attrs", "parents", "stars"):
        return tuple(dict.fromkeys(key for value in present for key in value))
    if tag == "if" or (tag in ("sure", "tail") and len(present) < len(values)):
        return None
    if tag == "tail":
        return join_values(machine, present, key if len(present) == 2 else None)
    return present[0]


def join_values(machine: Machine, values: Sequence[Value], key: Hashable) -> Value:
    """One value for several: a Select where a condition tells two apart, else what they have in common."""
    first = values[0]
    if all(value is first or value == first for value in values[1:]):
        return _with_all_traces(first, values)
    if isinstance(first, Tensor) and all(isinstance(value, Tensor) for value in values):
        kinds = {value.kind for value in values if isinstance(value, Tensor)}
        if len(kinds) == 1:
            shapes = {value.shape for value in values if isinstance(value, Tensor)}
            shape = first.shape if len(shapes) == 1 else None
            return Tensor(first.kind, first.place, split_of(*values), traces_of(*values), first.scaler, shape)
    if isinstance(first, Tuple) and all(isinstance(value, Tuple) for value in values):
        lengths = {len(value.items) for value in values if isinstance(value, Tuple)}
        if len(lengths) == 1:
            rows = zip(*(value.items for value in values if isinstance(value, Tuple)), strict=True)
            open_ = any(value.open for value in values if isinstance(value, Tuple))
            return Tuple(tuple(join_values(machine, row, key) for row in rows), open_)
        longest = max((value for value in values if isinstance(value, Tuple)), key=lambda value: len(value.items))
        return Tuple(longest.items, True)
    if isinstance(first, Table) and all(isinstance(value, Table) for value in values):
        items: dict[Any, Value] = {}
        for value in values:
            items.update(value.items if isinstance(value, Table) else {})
        return Table(items, True)
    if key is None and all(isinstance(value, Const) and isinstance(value.value, int | float) for value in values):
        return machine.symbol()
    if sum(map(_selects, values)) + len(values) - 1 <= _MAX_SELECTS:
        joined = first
        for value in values[1:]:
            told = key if key is not None and len(values) == 2 else machine.fresh()
            joined = Select(told, _side(joined, told, True), _side(value, told, False))
        return joined
    return Symbol(machine.fresh(), "", split_of(*values), traces_of(*values))


def _side(value: Value, key: Hashable, holds: bool) -> Value:
    """What a value is where the condition is known to hold, or not to: it may have been told apart by it before."""
    while isinstance(value, Select) and value.key == key:
        value = value.then if holds else value.other
    return value


def _with_all_traces(first: Value, values: Sequence[Value]) -> Value:
    """Two modules of one class give results that are equal, and computed by different calls."""
    if not isinstance(first, Tensor | Symbol) or all(value is first for value in values):
        return first
    traces = traces_of(*values)
    if traces != first.traces:
        shapes = {value.shape for value in values if isinstance(value, Tensor | Symbol)}
        return replace(first, traces=traces, shape=first.shape if len(shapes) == 1 else None)
    return first


def sides(value: Value) -> list[Value]:
    """What a value may be, where conditions tell it apart."""
    return [*sides(value.then), *sides(value.other)] if isinstance(value, Select) else [value]


def _selects(value: Value) -> int:
    return 1 + _selects(value.then) + _selects(value.other) if isinstance(value, Select) else 0


def differs_in_state(deltas: Sequence[Delta], base: Any) -> bool:
    """Whether paths disagree on modes, gradients or grad mode: then they are worth following apart.

    What only one of them made has a state of its own, which the join keeps.
    """
    for cell in {cell for delta in deltas for cell in delta if cell[0] in STATE}:
        held = [delta.get(cell, base(cell)) for delta in deltas]
        if None not in held and len({_kinds(state) if cell[0] == "mode" else state for state in held}) > 1:
            return True
    return False


def _kinds(found: frozenset[Mode]) -> frozenset[tuple[str, Place | None]]:
    return frozenset((mode.kind, mode.place) for mode in found)


def _joined_modes(found: frozenset[Mode]) -> frozenset[Mode]:
    """Of many modes that are unknown, set nowhere in particular, one will do: the latest."""
    unknown = [mode for mode in found if mode.kind == "unknown" and mode.place is None]
    if len(unknown) < 2:
        return found
    return found.difference(unknown) | {max(unknown, key=lambda mode: mode.stamp)}
