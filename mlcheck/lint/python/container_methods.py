"""Methods of lists, sets and dictionaries."""

from __future__ import annotations

import ast

from mlcheck.lint.interpret import containers
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.python import elements
from mlcheck.lint.values import NONE, Args, Const, Object, Table, Tuple, Value


def call(m: Machine, owner: Value, name: str, args: Args) -> Value:
    found = containers.contents(m, owner)
    if isinstance(found, Table):
        return _table(m, owner, found, name, args)
    if isinstance(found, Tuple) and isinstance(owner, Object):
        if name == "append" and args:
            containers.append(m, owner, args[0])
            return NONE
        if name in ("extend", "insert", "add", "update") and args:
            extra = containers.contents(m, args[-1])
            more = extra.items if isinstance(extra, Tuple) else (args[-1],) if name in ("insert", "add") else ()
            open_ = found.open or not isinstance(extra, Tuple) or extra.open or m.repeats
            m.store.set(("items", owner.id), Tuple((*found.items, *more)[:16], open_ and name != "insert"))
            m.store.set(("tail", owner.id), containers.tail(m, args[-1]) if name == "extend" else None)
            return NONE
        if name in ("pop", "reverse", "sort", "clear", "remove"):
            m.store.set(("tail", owner.id), None)
        if name == "pop" and found.items:
            return elements.element(m, owner)
        if name == "copy":
            return containers.new_list(m, found)
    return m.symbol()


def _table(m: Machine, owner: Value, found: Table, name: str, args: Args) -> Value:
    if name in ("values", "items", "keys"):
        if found.open and not found.items:
            return m.symbol()
        pairs: list[Value] = []
        for key, value in found.items.items():
            label: Value = Const(key) if not isinstance(key, tuple) else m.symbol()
            pairs.append(value if name == "values" else label if name == "keys" else Tuple((label, value)))
        return Tuple(tuple(pairs), found.open)
    if name in ("get", "pop", "setdefault") and args:
        if isinstance(args[0], Const):
            if args[0].value in found.items:
                return found.items[args[0].value]
            if name == "setdefault" and len(args) > 1 and not found.open:
                containers.store_item(m, owner, args[0], args[1])
            return args[1] if len(args) > 1 and not found.open else m.symbol()
        return elements.item(m, owner, args[0], ast.Subscript(ast.Constant(None), ast.Constant(None), ast.Load()))
    if name == "update" and args and isinstance(owner, Object):
        extra = containers.table(m, args[0])
        merged = {**found.items, **(extra.items if extra else {("?", m.fresh()): m.symbol()})}
        m.store.set(("items", owner.id), Table(merged, found.open or extra is None or extra.open))
        return NONE
    return containers.new_dict(m, found) if name == "copy" else m.symbol()
