"""What statements do: control flow over paths, bindings, definitions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from mlcheck.lint import (
    accumulation,
    attributes,
    containers,
    contexts,
    definitions,
    expressions,
    gradients,
    keeping,
    loops,
    names,
    snapshots,
)
from mlcheck.lint.conditions import decide, truth
from mlcheck.lint.facts import Idle
from mlcheck.lint.joins import differs_in_state
from mlcheck.lint.machine import Exit, Machine
from mlcheck.lint.store import Delta
from mlcheck.lint.values import (
    NONE,
    Const,
    Object,
    Params,
    Symbol,
    Tuple,
    Value,
    split_of,
    split_of_name,
    traces_of,
    with_name,
)

_MAX_WAYS = 8


def block(m: Machine, body: Sequence[ast.stmt], start: int = 0) -> bool:
    """Run statements in order. False when the end is never reached: returned, raised, broke out."""
    for index in range(start, len(body)):
        node = body[index]
        m.tick()
        if isinstance(node, ast.If):
            known, key = decide(m, expressions.evaluate(m, node.test))
            if known is not None:
                if not block(m, node.body if known else node.orelse):
                    return False
                continue
            ends = _if(m, node, key)
            if len(ends) > 1 and m.ways * len(ends) <= _MAX_WAYS and differs_in_state(ends, m.store.get):
                return _apart(m, ends, body, index + 1)
            if not ends:
                return False
            _join(m, ends, key)
            continue
        handler = _HANDLERS.get(type(node))
        if handler is not None and not handler(m, node):
            return False
    return True


def _if(m: Machine, node: ast.If, key: Hashable) -> list[Delta]:
    """The states at the ends of both branches, of those that have one."""
    ends: list[Delta] = []
    for holds, body in ((True, node.body), (False, node.orelse)):
        if not body:
            mark = m.store.mark()
            m.assume(key, holds)
            accumulation.decided(m, node.test, key, holds)
            ends.append(m.store.delta(mark))
            m.store.undo(mark)
            continue
        if isinstance(body[0], ast.Raise):
            continue

        def run(holds: bool = holds, body: list[ast.stmt] = body) -> bool:
            m.assume(key, holds)
            accumulation.decided(m, node.test, key, holds)
            return block(m, body)

        normal, exits = m.capture(run)
        m.emit_again(exits)
        if normal is not None:
            ends.append(normal)
    if len(ends) == 2:
        gradients.relax(m, ends, key)
    return ends


def _join(m: Machine, ends: list[Delta], key: Hashable) -> None:
    if len(ends) > 1:
        ends = [{cell: value for cell, value in end.items() if cell[0] != "if"} for end in ends]
    m.merge(ends, key)


def _apart(m: Machine, ends: list[Delta], body: Sequence[ast.stmt], start: int) -> bool:
    """Follow the rest of the block once from each end, and join only there."""
    finals = []
    ways, m.ways = m.ways, m.ways * len(ends)
    for end in ends:

        def run(end: Delta = end) -> bool:
            m.store.replay(end)
            return block(m, body, start)

        normal, exits = m.capture(run)
        m.emit_again(exits)
        if normal is not None:
            finals.append({cell: value for cell, value in normal.items() if cell[0] != "if"})
    m.ways = ways
    if finals:
        m.merge(finals)
    return bool(finals)


def protect(m: Machine, body: Callable[[], bool], leave: Callable[[], bool]) -> bool:
    """Run `body` and then `leave` on every way out of it, as `with` and `finally` do."""
    normal, exits = m.capture(body)
    grouped: dict[str, list[Exit]] = {}
    for way in exits:
        grouped.setdefault(way.kind, []).append(way)
    for kind, ways in grouped.items():

        def run(ways: list[Exit] = ways) -> bool:
            m.merge([way.delta for way in ways])
            return leave()

        after, inner = m.capture(run)
        m.emit_again(inner)
        if after is not None:
            value = ways[0].value if len(ways) == 1 else _any_value(m, [way.value for way in ways])
            m.emit_again([Exit(kind, value, after)])
    if normal is None:
        return False
    m.store.replay(normal)
    return leave()


def _any_value(m: Machine, values: Sequence[Value | None]) -> Value:
    from mlcheck.lint.joins import join_values

    return join_values(m, [value or NONE for value in values], None)


def _expression(m: Machine, node: ast.Expr) -> bool:
    value = expressions.evaluate(m, node.value)
    if isinstance(value, Object) and isinstance(node.value, ast.Call) and value.type in contexts.IDLE:
        m.facts.idle.append(Idle(m.place(node.value), value.type))
    return True


def _assign(m: Machine, node: ast.Assign) -> bool:
    value = expressions.evaluate(m, node.value)
    keeping.rebound(m, node, value)
    for target in node.targets:
        assign(m, target, value)
    return True


def _annotated(m: Machine, node: ast.AnnAssign) -> bool:
    if node.value is not None:
        assign(m, node.target, expressions.evaluate(m, node.value))
    return True


def _augmented(m: Machine, node: ast.AugAssign) -> bool:
    target = node.target
    reading: ast.expr = target
    if isinstance(target, ast.Name):
        reading = ast.copy_location(ast.Name(target.id, ast.Load()), target)
    old, change = expressions.evaluate(m, reading), expressions.evaluate(m, node.value)
    if isinstance(target, ast.Attribute) and target.attr == "grad":
        return True
    keeping.added(m, node, target, change)
    new = expressions.arithmetic(m, type(node.op).__name__, old, change)
    if isinstance(new, Const) and isinstance(new.value, int | float):
        new = m.symbol()
    if isinstance(old, Object) and isinstance(containers.contents(m, old), Tuple):
        new_items = containers.contents(m, new)
        if isinstance(new_items, Tuple):
            open_ = new_items.open or m.repeats or len(new_items.items) > 32
            m.store.set(("items", old.id), Tuple(new_items.items[:32], open_))
            return True
    assign(m, target, new)
    return True


def assign(m: Machine, target: ast.expr, value: Value) -> None:
    """Bind a target: a name, an attribute, an item, or several of them."""
    snapshots.assigned(m, target, value)
    match target:
        case ast.Name(id=name):
            value = with_name(value, name)
            attributes.name_object(m, value, name)
            m.bind(name, value)
        case ast.Attribute():
            attributes.put(m, expressions.evaluate(m, target.value), target.attr, value, target)
        case ast.Subscript():
            owner = expressions.evaluate(m, target.value)
            if not isinstance(target.slice, ast.Slice):
                containers.store_item(m, owner, expressions.evaluate(m, target.slice), value)
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            _unpack(m, targets, value)
        case ast.Starred():
            assign(m, target.value, value)


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


def _return(m: Machine, node: ast.Return) -> bool:
    m.leave("return", expressions.evaluate(m, node.value))
    return False


def _break(m: Machine, node: ast.Break | ast.Continue) -> bool:
    m.leave("break" if isinstance(node, ast.Break) else "continue")
    return False


def _raise(m: Machine, node: ast.Raise) -> bool:
    return False


def _assert(m: Machine, node: ast.Assert) -> bool:
    known, key = truth(m, expressions.evaluate(m, node.test))
    if known is None:
        m.assume(key, True)
    return known is not False


def _try(m: Machine, node: ast.Try) -> bool:
    def guarded() -> bool:
        normal, exits = m.capture(lambda: block(m, [*node.body, *node.orelse]))
        m.emit_again(exits)
        ends = [] if normal is None else [normal]
        for handler in node.handlers:

            def run(handler: ast.ExceptHandler = handler) -> bool:
                if handler.name:
                    m.bind(handler.name, m.symbol(handler.name))
                return block(m, handler.body)

            rescued, exits = m.capture(run)
            m.emit_again(exits)
            if rescued is not None:
                # An exception is the rare way: it tells of variables, not of the usual course of training.
                kept = rescued if normal is None else {c: v for c, v in rescued.items() if c[0] in ("v", "a")}
                ends.append(kept)
        if ends:
            m.merge(ends)
        return bool(ends)

    if not node.finalbody:
        return guarded()
    return protect(m, guarded, lambda: block(m, node.finalbody))


def _match(m: Machine, node: ast.Match) -> bool:
    subject = expressions.evaluate(m, node.subject)
    ends = []
    for case in node.cases:

        def run(case: ast.match_case = case) -> bool:
            for part in ast.walk(case.pattern):
                name = getattr(part, "name", None)
                if isinstance(name, str):
                    m.bind(name, m.symbol(name))
            return block(m, case.body)

        if isinstance(case.pattern, ast.MatchValue) and isinstance(subject, Const):
            expected = expressions.evaluate(m, case.pattern.value)
            if isinstance(expected, Const) and expected.value != subject.value:
                continue
        normal, exits = m.capture(run)
        m.emit_again(exits)
        if normal is not None:
            ends.append(normal)
        if isinstance(case.pattern, ast.MatchValue) and isinstance(subject, Const) and case.guard is None:
            break
    if ends:
        m.merge(ends)
    return bool(ends)


def _scope(m: Machine, node: ast.Global | ast.Nonlocal) -> bool:
    for name in node.names:
        scope = m.program.name_of(m.frame.module) if isinstance(node, ast.Global) else m.parents.get(m.frame.scope)
        if isinstance(node, ast.Nonlocal):
            while scope is not None and m.store.get(("v", scope, name)) is None:
                scope = m.parents.get(scope)
        if scope is not None:
            m.store.set(("declared", m.frame.scope, name), scope)
    return True


def _import(m: Machine, node: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(node, ast.Import):
        names.import_statement(m, node)
    else:
        names.import_from(m, node)
    return True


_HANDLERS: dict[type[ast.stmt], Callable[[Machine, Any], bool]] = {
    ast.Expr: _expression,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.Return: _return,
    ast.Break: _break,
    ast.Continue: _break,
    ast.Raise: _raise,
    ast.Assert: _assert,
    ast.Try: _try,
    ast.TryStar: _try,
    ast.Match: _match,
    ast.For: loops.for_loop,
    ast.AsyncFor: loops.for_loop,
    ast.While: loops.while_loop,
    ast.With: contexts.with_statement,
    ast.AsyncWith: contexts.with_statement,
    ast.FunctionDef: definitions.function,
    ast.AsyncFunctionDef: definitions.function,
    ast.ClassDef: definitions.class_,
    ast.Global: _scope,
    ast.Nonlocal: _scope,
    ast.Import: _import,
    ast.ImportFrom: _import,
}
