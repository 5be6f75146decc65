"""Conditions: what they come to, and the key under which a path remembers what it took for granted."""

from __future__ import annotations

import ast
from collections.abc import Hashable
from typing import Any

from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.values import (
    FALSE,
    TRUE,
    Class,
    Const,
    External,
    Function,
    Method,
    Module,
    Object,
    Params,
    Partial,
    Saved,
    Select,
    Symbol,
    Table,
    Tensor,
    Tuple,
    Value,
)

_OBJECTS = (Object, Function, Class, Module, Method, Partial)
_FEW = 12
_THINGS = (*_OBJECTS, External, Tensor, Params, Tuple, Table)


def key_of(m: Machine, value: Value) -> Hashable:
    """An identity for comparing values on one path."""
    match value:
        case Symbol(key=key):
            return key
        case Const(value=constant):
            hashable = type(constant).__hash__ is not None  # as `Hashable` asks, at a tenth of the time
            return ("const", type(constant).__name__, constant) if hashable else m.fresh()
        case Object(id=number):
            return ("object", number)
        case Select(key=key, then=then, other=other):
            return ("select", key, key_of(m, then), key_of(m, other))
        case External(name=name):
            return ("external", name)
    return m.fresh()


def truth(m: Machine, value: Value) -> tuple[bool | None, Hashable]:
    """Whether the value counts as true, None when unknown, with the key that decides it."""
    match value:
        case Const(value=constant):
            return bool(constant), None
        case Tuple(items=items, open=open_):
            return (True if items else None if open_ else False), None if items or not open_ else m.fresh()
        case Table(items=entries, open=open_):
            return (True if entries else None if open_ else False), None if entries or not open_ else m.fresh()
        case Saved(modes=modes, key=key):
            kinds = {mode.kind for mode in modes}
            if kinds in ({"train"}, {"eval"}):
                return kinds == {"train"}, None
            return m.assumed(key), key
        case Symbol(key=key):
            return _symbolic(m, key)
        case Select(key=key, then=then, other=other):
            return _selected(m, key, then, other)
    if isinstance(value, _OBJECTS):
        contents = m.store.get(("items", value.id)) if isinstance(value, Object) else None
        return truth(m, contents) if contents is not None else (True, None)
    return None, m.fresh()


def _symbolic(m: Machine, key: Hashable) -> tuple[bool | None, Hashable]:
    if isinstance(key, tuple) and key:
        if key[0] == "not":
            known, inner = _symbolic(m, key[1])
            return (not known, None) if known is not None else (None, ("not", inner))
        if key[0] == "const" and len(key) == 2:
            return bool(key[1]), None
        if key[0] in ("and", "or"):
            stop = key[0] == "or"
            parts = [_symbolic(m, part)[0] for part in key[1:]]
            if stop in parts:
                return stop, None
            if None not in parts:
                return not stop, None
    return m.assumed(key), key


def _selected(m: Machine, key: Hashable, then: Value, other: Value) -> tuple[bool | None, Hashable]:
    known = m.assumed(key)
    if known is not None:
        return truth(m, then if known else other)
    (a, a_key), (b, b_key) = truth(m, then), truth(m, other)
    if a is not None and a == b:
        return a, None
    if a is True and b is False:
        return None, key
    if a is False and b is True:
        return None, ("not", key)
    if b is not None:
        return None, ("or", ("not", key), a_key) if b else ("and", key, a_key)
    if a is not None:
        return None, ("or", key, b_key) if a else ("and", ("not", key), b_key)
    return None, ("truth", key_of(m, then), key_of(m, other), key)


def decide(m: Machine, value: Value) -> tuple[bool | None, Hashable]:
    """Like `truth`, with what this path has taken the whole of the condition for, where its parts tell nothing."""
    known, key = truth(m, value)
    return (m.assumed(key) if known is None else known), key


def compare(m: Machine, operator: ast.cmpop, left: Value, right: Value) -> Value:
    """The outcome of one comparison: a constant where it is certain, else a symbol that says what was asked."""
    if isinstance(right, Select) and not isinstance(left, Select):
        left, right = right, left
        if not isinstance(operator, ast.Eq | ast.NotEq | ast.Is | ast.IsNot):
            return m.symbol()
    if isinstance(left, Select):
        return _compare_select(m, operator, left, right)
    negative = isinstance(operator, ast.NotEq | ast.IsNot | ast.NotIn)
    if isinstance(operator, ast.Is | ast.IsNot | ast.Eq | ast.NotEq):
        same = _same(left, right)
        if same is not None:
            return Const(same != negative)
        if isinstance(right, Const) and right.value is None and isinstance(left, Symbol):
            if m.store.get(("there", left.key)):
                return Const(negative)  # `items[a:b]` may be empty, but it is there
            return left if negative else Symbol(("not", left.key))
        if isinstance(right, Const) and isinstance(right.value, bool) and isinstance(left, Symbol):
            return left if right.value != negative else Symbol(("not", left.key))
        if isinstance(right, Const) and isinstance(right.value, bool) and isinstance(left, Saved):
            known, key = truth(m, left)
            if known is not None:
                return Const((known == right.value) != negative)
            return Symbol(key if right.value != negative else ("not", key))
        key = ("==", *sorted((key_of(m, left), key_of(m, right)), key=repr))
        return Symbol(("not", key) if negative else key)
    return _ordered(m, operator, left, right)


def _compare_select(m: Machine, operator: ast.cmpop, left: Select, right: Value) -> Value:
    known = m.assumed(left.key)
    if known is not None:
        return compare(m, operator, left.then if known else left.other, right)
    then, other = compare(m, operator, left.then, right), compare(m, operator, left.other, right)
    if isinstance(then, Const) and isinstance(other, Const):
        if then == other:
            return then
        return Symbol(left.key if then.value else ("not", left.key))
    return Select(left.key, then, other)


def _same(left: Value, right: Value) -> bool | None:
    if isinstance(left, Const) and isinstance(right, Const):
        return bool(left.value == right.value and (left.value is None) == (right.value is None))
    for one, two in ((left, right), (right, left)):
        if isinstance(two, Const) and isinstance(one, _OBJECTS if two.value is not None else _THINGS):
            return False
    if isinstance(left, Object) and isinstance(right, Object):
        return True if left.id == right.id else None
    if isinstance(left, External) and isinstance(right, External):
        return left.name == right.name
    if isinstance(left, Symbol) and isinstance(right, Symbol) and left.key == right.key:
        return True
    if isinstance(left, Tuple) and isinstance(right, Tuple) and not left.open and not right.open:
        return _same_items(left, right)
    return None


def _same_items(left: Tuple, right: Tuple) -> bool | None:
    """`(0,) == (1,)`: members of an enumeration written with commas, for one."""
    if len(left.items) != len(right.items):
        return False
    answers = {_same(one, two) for one, two in zip(left.items, right.items, strict=True)}
    return False if False in answers else None if None in answers else True


def _ordered(m: Machine, operator: ast.cmpop, left: Value, right: Value) -> Value:
    if isinstance(operator, ast.In | ast.NotIn):
        items = m.store.get(("items", right.id)) if isinstance(right, Object) else right
        if isinstance(left, Const) and isinstance(items, Tuple | Table) and not items.open:
            members: list[Any] = list(items.items)
            if isinstance(items, Tuple) and not all(isinstance(item, Const) for item in items.items):
                return Symbol(("in", key_of(m, left), key_of(m, right)))
            values = [item.value if isinstance(item, Const) else item for item in members]
            found = any(value == left.value for value in values)
            return TRUE if found == isinstance(operator, ast.In) else FALSE
        key = _membership(m, left, right, items)
        return Symbol(key if isinstance(operator, ast.In) else ("not", key))
    if isinstance(left, Const) and isinstance(right, Const):
        try:
            return Const(_ORDER[type(operator)](left.value, right.value))
        except TypeError:
            return m.symbol()
    a, b = key_of(m, left), key_of(m, right)
    if isinstance(operator, ast.Gt):
        return Symbol(("<", b, a))
    if isinstance(operator, ast.Lt):
        return Symbol(("<", a, b))
    return Symbol(("not", ("<", a, b)) if isinstance(operator, ast.GtE) else ("not", ("<", b, a)))


def _membership(m: Machine, left: Value, right: Value, items: object) -> Hashable:
    """`kind in ("a", "b")` asks what `kind == "a" or kind == "b"` asks."""
    one = key_of(m, left)
    if isinstance(items, Tuple) and not items.open and 0 < len(items.items) <= _FEW:
        if all(isinstance(item, Const) for item in items.items):
            return ("or", *(("==", *sorted((one, key_of(m, item)), key=repr)) for item in items.items))
    return ("in", one, key_of(m, right))


_ORDER: dict[type[ast.cmpop], Any] = {
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
}
