"""What calls of a function came to so far: one that twice did nothing a rule could see is not followed a third time.

A call bears fruit when it puts a fact on record, changes the state of something older than the call, or returns
or keeps something a rule may ask about. Only calls with dull arguments are spared: given a module, an optimizer
or the like, the same function may well do something.
"""

from __future__ import annotations

from collections.abc import Hashable

from mlcheck.core.dataclasses import dataclass, field, replace
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.interpret.store import Key, is_young
from mlcheck.lint.program import FunctionInfo
from mlcheck.lint.pytorch import gradients, modes
from mlcheck.lint.values import (
    NONE,
    Args,
    Class,
    Const,
    External,
    Function,
    Imported,
    Kwargs,
    Module,
    Object,
    Saved,
    Select,
    Symbol,
    Table,
    Tensor,
    Tuple,
    Value,
    split_of,
    traces_of,
)

_ENOUGH = 2
_MANY = 16
_TIRING, _LONG_TIRING = 3_000, 15_000
_MOST_ITEMS = 32
_DEPTH = 3
_PLAIN = frozenset([Const, External, Module, Imported, Saved])
_UNSEEN = frozenset(["if", "name", "declared", "pending", "loaded", "stars", "attrs"])
_DULL_TYPES = frozenset(["torch.device", "torch.Size", "torch.Generator", "torch.dtype"])


@dataclass(slots=True)
class Habit:
    """The calls of one function: how many were followed in vain, what they wrote and returned.

    `steps` were taken in all its calls that put nothing on record.
    """

    vain: int = 0
    steps: int = 0
    listed: int = 0
    abandoned: bool = False
    fruitful: bool = False
    returns_none: bool = True
    attributes: set[str] = field(default_factory=set)
    cells: set[Key] = field(default_factory=set)


def spared(m: Machine, function: Function, args: Args, kwargs: Kwargs) -> Value | None:
    """The result of a call that need not be followed, after its known effects; None where it has to be."""
    habit = m.habits.get(function.info.node)
    if habit is None or habit.fruitful or not isinstance(function.scope, str | None):
        return None
    if habit.listed >= _MANY and _lists(function, args):
        _blur_all(m, habit)
        return args[0]
    if habit.vain < _ENOUGH or m.relevance.cuts(function.info):
        return None
    if not all_dull(m, function, args, kwargs):
        return None
    values = [*args, *kwargs.values()]
    bound = function.bound
    if isinstance(bound, Object):
        for name in habit.attributes:
            if m.store.get(("a", bound.id, name)) is not None:
                m.store.set(("a", bound.id, name), m.symbol(name))
    _blur_all(m, habit)
    return NONE if habit.returns_none else Symbol(m.fresh(), "", split_of(*values), traces_of(*values))


def is_abandoned(m: Machine, info: FunctionInfo) -> bool:
    """Whether a call of it was given up."""
    habit = m.habits.get(info.node)
    return habit is not None and habit.abandoned


def abandon(m: Machine, info: FunctionInfo) -> None:
    m.habits.setdefault(info.node, Habit()).abandoned = True


def tire(m: Machine, info: FunctionInfo, steps: int) -> None:
    """A call took these steps and put nothing on record: a function that did so for long is given up.

    One that may come to something, by the names it calls, is given up much later.
    Constructors are followed all the same, since others look into what they made.
    """
    habit = m.habits.setdefault(info.node, Habit())
    habit.steps += steps
    if habit.steps > _TIRING and info.name != "__init__":
        habit.abandoned |= habit.steps > _LONG_TIRING or not m.relevance.promises(info)


def all_dull(m: Machine, function: Function, args: Args, kwargs: Kwargs) -> bool:
    """Whether a call is given nothing that rules ask about."""
    bound = function.bound
    given = [*args, *kwargs.values()] if bound is None else [bound, *args, *kwargs.values()]
    return all(dull(m, value) for value in given)


def _lists(function: Function, args: list[Value]) -> bool:
    """Whether it is called as a decorator is: with one function or class, at the top level of a file."""
    return function.bound is None and len(args) == 1 and isinstance(args[0], Function | Class)


def _blur_all(m: Machine, habit: Habit) -> None:
    for cell in habit.cells:
        present = m.store.get(cell)
        if isinstance(present, Tuple | Table):
            if not present.open:
                m.store.set(cell, replace(present, open=True))
        elif present is not None and not (isinstance(present, Symbol) and not present.name):
            m.store.set(cell, m.symbol())


def learn(m: Machine, function: Function, args: list[Value], mark: int, facts: int, first: int, result: Value) -> None:
    """Take note of what a call came to. `first`: identities from there on are younger than the call."""
    habit = m.habits.setdefault(function.info.node, Habit())
    if habit.fruitful:
        return
    if _lists(function, args) and result is args[0] and facts == m.facts.total():
        if _effects(m, function, mark, first, habit, listing=True):
            habit.listed += 1
            return
    if facts != m.facts.total() or not dull(m, result, result=True) or not _effects(m, function, mark, first, habit):
        habit.fruitful = True
        return
    habit.vain += 1
    habit.returns_none &= isinstance(result, Const) and result.value is None


def _effects(m: Machine, function: Function, mark: int, first: int, habit: Habit, listing: bool = False) -> bool:
    """Collect what a call wrote that was there before; False when it is more than dull values.

    A decorator that is `listing` what it decorates may keep it in tables.
    """
    own = function.bound.id if isinstance(function.bound, Object) else None
    for cell, before in m.store.first_writes(mark).items():
        tag, owner = cell[0], cell[1] if len(cell) > 1 else None
        if tag in _UNSEEN or is_young(owner, first) or (tag == "v" and before is None):
            continue
        value = m.store.get(cell)
        if value is before or value == before:
            continue
        if tag not in ("v", "a", "items"):
            return False
        if isinstance(value, Value) and not (listing and tag == "items") and not dull(m, value):
            return False
        if tag == "a" and owner == own:
            habit.attributes.add(str(cell[2]))
        else:
            habit.cells.add(cell)
    return len(habit.cells) <= _MOST_ITEMS


def dull(m: Machine, value: Value, depth: int = _DEPTH, result: bool = False) -> bool:
    """Whether no rule asks about this value, whatever is done with it."""
    if type(value) in _PLAIN:
        return True
    if isinstance(value, Symbol):
        return not (modes.known_as_module(m, value) or gradients.is_optimizer(m, value))
    match value:
        case Tensor(kind=kind, shape=shape):
            return kind == "other" and shape is None
        case Tuple(items=items):
            return len(items) <= _MOST_ITEMS and all(dull(m, item, depth, result) for item in items)
        case Table(items=entries):
            return len(entries) <= _MOST_ITEMS and all(dull(m, item, depth, result) for item in entries.values())
        case Select(then=then, other=other):
            return dull(m, then, depth, result) and dull(m, other, depth, result)
        case Class(info=info):
            return not modes.is_module_type(info)
        case Object():
            return _is_dull_object(m, value, depth, result)
    return False


def _is_dull_object(m: Machine, value: Object, depth: int, result: bool) -> bool:
    if modes.is_module(value) or gradients.is_optimizer(m, value) or depth == 0 or (result and value.cls is not None):
        return False
    if value.cls is None and value.type.startswith("torch.") and value.type not in _DULL_TYPES:
        return False
    items = m.store.get(("items", value.id))
    if items is not None and not dull(m, items, depth - 1, result):
        return False
    held: tuple[Hashable, ...] = m.store.get(("attrs", value.id)) or ()
    if len(held) > _MOST_ITEMS:
        return False
    for name in held:
        inner = m.store.get(("a", value.id, name))
        if inner is not None and not dull(m, inner, depth - 1, result):
            return False
    return not value.type.startswith("builtins.") or all(dull(m, arg, depth - 1, result) for arg in value.args)
