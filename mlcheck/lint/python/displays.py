"""Tuples, lists, sets and dictionaries written out, and comprehensions."""

from __future__ import annotations

import ast
from collections.abc import Hashable
from typing import Any

from mlcheck.lint.facts import Loop
from mlcheck.lint.interpret import containers, turns
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.nodes import loads
from mlcheck.lint.python import assignment, attributes, elements
from mlcheck.lint.pytorch import snapshots
from mlcheck.lint.values import Const, Params, Table, Tuple, Value

_MAX_LITERAL = 64


def sequence(m: Machine, node: ast.Tuple | ast.List | ast.Set) -> Value:
    if len(node.elts) > _MAX_LITERAL:
        return m.symbol()
    found: list[Value] = []
    open_ = False
    for element in node.elts:
        if isinstance(element, ast.Starred):
            spread = m.evaluate(element.value)
            inner = containers.items(m, spread)
            open_ |= inner is None
            found.extend(inner if inner is not None else [elements.element(m, spread)])
        else:
            found.append(m.evaluate(element))
    items = Tuple(tuple(found), open_)
    if isinstance(node, ast.Tuple):
        return items
    made = containers.new_list(m, items)
    if found and not isinstance(node.elts[-1], ast.Starred):
        m.store.set(("tail", made.id), found[-1])
    return made


def dictionary(m: Machine, node: ast.Dict) -> Value:
    if len(node.keys) > _MAX_LITERAL:
        return m.symbol()
    table = Table({})
    open_ = False
    for key, item in zip(node.keys, node.values, strict=True):
        value = m.evaluate(item)
        if key is None:
            inner = containers.table(m, value)
            open_ |= inner is None or inner.open
            table.items.update(inner.items if inner else {})
            continue
        name = m.evaluate(key)
        if isinstance(name, Const) and isinstance(name.value, Hashable):
            table.items[name.value] = value
            if isinstance(name.value, str):
                attributes.name_object(m, value, name.value)
        else:
            open_ = True
            table.items[("?", m.fresh())] = value
    return containers.new_dict(m, Table(table.items, open_))


def comprehension(m: Machine, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
    """Loops walked twice, in a scope of their own; the items are what the element expression gave."""
    outer = m.frame.scope
    m.frame.scope = inner = ("comprehension", m.fresh())
    m.parents[inner] = outer
    found: list[Value] = []
    exact = False
    try:
        first = m.evaluate(node.generators[0].iter)
        exact = len(node.generators) == 1 and not node.generators[0].ifs
        exact = _clauses(m, node, 0, first, found) and exact
    finally:
        m.frame.scope = outer
    if isinstance(node, ast.DictComp):
        if (shared := snapshots.rebuilt(node, first)) is not None:
            return shared
        keyed = [item for item in found if isinstance(item, Tuple) and isinstance(item.items[0], Const)]
        named = {item.items[0].value: item.items[1] for item in keyed if isinstance(item.items[0], Const)}
        if exact and len(named) == len(found):
            return containers.new_dict(m, Table(named))
        values = {("?", m.fresh()): item.items[1] for item in found[:1] if isinstance(item, Tuple)}
        return containers.new_dict(m, Table(values, True))
    whole = exact or all(isinstance(item, Params) for item in found)
    items = Tuple(tuple(found) if whole else tuple(found[:1]), not exact)
    return containers.new_list(m, items)


def _is_for_each_alike(node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> bool:
    """`(nn.Linear(n, n) for _ in range(3))`, whose items do not ask for the number."""
    target = node.generators[0].target
    alone = len(node.generators) == 1 and not node.generators[0].ifs and not isinstance(node, ast.DictComp)
    return alone and isinstance(target, ast.Name) and not loads(node, target.id)


def _clauses(m: Machine, node: Any, depth: int, source: Value, found: list[Value]) -> bool:
    clause = node.generators[depth]
    loop = Loop(node, m.place(node), containers.split_of_iterable(m, source))
    known = elements.finite(m, source) or (elements.counted(source) if _is_for_each_alike(node) else None)
    items: list[Value | None] = list(known) if known is not None else [None, None]
    start, facts, first = m.store.mark(), m.facts.total(), m.fresh()
    with turns.inside(m, loop):
        for item in items:
            loop.turn += 1
            value = item if item is not None else elements.element(m, source)
            assignment.assign(m, clause.target, value)
            for test in clause.ifs:
                m.evaluate(test)
            if depth + 1 < len(node.generators):
                _clauses(m, node, depth + 1, m.evaluate(node.generators[depth + 1].iter), found)
            elif isinstance(node, ast.DictComp):
                found.append(Tuple((m.evaluate(node.key), m.evaluate(node.value))))
            else:
                found.append(m.evaluate(node.elt))
            if known is None and facts == m.facts.total() and not turns.leaves_anything(m, start, first, clause):
                break
    return known is not None
