"""What statements do: control flow over paths, bindings, definitions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Sequence
from itertools import takewhile
from typing import Any

from mlcheck.lint import names
from mlcheck.lint.facts import Idle
from mlcheck.lint.files.slim import by_kind
from mlcheck.lint.interpret import certainty, guards
from mlcheck.lint.interpret.conditions import decide, truth
from mlcheck.lint.interpret.joins import differs_in_state
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.interpret.store import Delta
from mlcheck.lint.nodes import is_name, walk
from mlcheck.lint.python import assignment, contexts, definitions, loops, ways_out
from mlcheck.lint.pytorch import accumulation, grad_modes, relaxing
from mlcheck.lint.values import (
    Const,
    Object,
)

_MAX_WAYS = 8


def block(m: Machine, body: Sequence[ast.stmt], start: int = 0) -> bool:
    """Run statements in order. False when the end is never reached: returned, raised, broke out."""
    for index in range(start, len(body)):
        node = body[index]
        m.tick()
        if isinstance(node, ast.If):
            known, key = decide(m, m.evaluate(node.test))
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
    over: list[bool] = []
    leaves = any(body and isinstance(body[-1], ast.Break) for body in (node.body, node.orelse))
    for holds, body in ((True, node.body), (False, node.orelse)):
        if not body:
            mark = m.store.mark()
            m.assume(key, holds)
            if not leaves:
                accumulation.decided(m, node.test, key, holds)
            ends.append(m.store.delta(mark))
            m.store.undo(mark)
            continue
        if isinstance(body[0], ast.Raise):
            over.append(holds)
            continue

        def run(holds: bool = holds, body: list[ast.stmt] = body) -> bool:
            m.assume(key, holds)
            if not leaves:
                accumulation.decided(m, node.test, key, holds)
            return block(m, body)

        normal, exits = m.capture(run)
        m.emit_again(exits)
        if normal is not None:
            ends.append(normal)
        elif not exits:
            over.append(holds)
    if len(ends) == 2:
        relaxing.relax(m, ends, key)
    return [certainty.others_end(m, ends[0], key, not over[0])] if len(ends) == len(over) == 1 else ends


def _join(m: Machine, ends: list[Delta], key: Hashable) -> None:
    if len(ends) > 1:
        ends = [guards.settled(m, end) for end in ends]
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
            finals.append(guards.settled(m, normal))
    m.ways = ways
    if finals:
        m.merge(finals)
    return bool(finals)


def _unread(m: Machine, node: ast.expr) -> None:
    """Nobody takes what this came to."""
    for forward in takewhile(lambda forward: forward.place.node is node, reversed(m.facts.forwards)):
        forward.unread = True


def _assign(m: Machine, node: ast.Assign) -> bool:
    done = assignment.plain(m, node)
    if all(is_name(target, "_") for target in node.targets):
        _unread(m, node.value)
    return done


def _expression(m: Machine, node: ast.Expr) -> bool:
    value = m.evaluate(node.value)
    _unread(m, node.value)
    assignment.in_place(m, node.value, value)
    if isinstance(value, Object) and isinstance(node.value, ast.Call) and value.type in grad_modes.MANAGERS:
        m.facts.idle.append(Idle(m.place(node.value), value.type))
    return True


def _return(m: Machine, node: ast.Return) -> bool:
    m.leave("return", m.evaluate(node.value))
    return False


def _break(m: Machine, node: ast.Break | ast.Continue) -> bool:
    m.leave("break" if isinstance(node, ast.Break) else "continue")
    return False


def _raise(m: Machine, node: ast.Raise) -> bool:
    return False


def _assert(m: Machine, node: ast.Assert) -> bool:
    known, key = truth(m, m.evaluate(node.test))
    if known is None:
        certainty.assume_or_end(m, key)
    return known is not False


def _match(m: Machine, node: ast.Match) -> bool:
    subject = m.evaluate(node.subject)
    ends = []
    for case in node.cases:

        def run(case: ast.match_case = case) -> bool:
            for part in walk(case.pattern):
                name = getattr(part, "name", None)
                if isinstance(name, str):
                    m.bind(name, m.symbol(name))
            return block(m, case.body)

        if isinstance(case.pattern, ast.MatchValue) and isinstance(subject, Const):
            expected = m.evaluate(case.pattern.value)
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


_HANDLERS: dict[type, Callable[[Machine, Any], bool]] = by_kind(
    {
        ast.Expr: _expression,
        ast.Assign: _assign,
        ast.AnnAssign: assignment.annotated,
        ast.AugAssign: assignment.augmented,
        ast.Return: _return,
        ast.Break: _break,
        ast.Continue: _break,
        ast.Raise: _raise,
        ast.Assert: _assert,
        ast.Try: ways_out.attempt,
        ast.TryStar: ways_out.attempt,
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
)
