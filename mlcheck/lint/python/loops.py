"""Loops, walked twice: what one iteration leaves meets the next. Once will do where it leaves nothing."""

from __future__ import annotations

import ast
from collections.abc import Callable

from mlcheck.lint.facts import Loop
from mlcheck.lint.interpret import containers, guards, turns
from mlcheck.lint.interpret.conditions import compare, truth
from mlcheck.lint.interpret.frames import Exit
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.interpret.store import Delta
from mlcheck.lint.nodes import is_length, is_name, walk
from mlcheck.lint.python import assignment, elements
from mlcheck.lint.values import Const, Object, Value, split_of_name


def for_loop(m: Machine, node: ast.For | ast.AsyncFor) -> bool:
    """Each known item in its turn; else two turns, so that what one leaves meets the next."""
    source = m.evaluate(node.iter)
    loop = Loop(node, m.place(node), containers.split_of_iterable(m, source) or _split_said(m, node.iter))
    known = elements.finite(m, source) or (elements.counted(source) if _goes_by_length(node.iter) else None)
    loop.exact = known is not None
    binds: list[Callable[[], bool]] = []
    for item in known if known is not None else [None, None]:

        def bind(item: object = item) -> bool:
            value = elements.turn_of(m, source, loop.turn) if item is None else item
            assignment.assign(m, node.target, value)  # type: ignore[arg-type]
            if loop.turn > 1 and not loop.exact:
                _count_on(m, node, source)
            loop.mark, loop.first = m.store.mark(), m.fresh()
            return True

        binds.append(bind)
    return _turns(m, loop, binds, node.body, node.orelse, endless=False)


def _goes_by_length(over: ast.expr) -> bool:
    """`range(len(sizes) - 1)`: a turn for each of some things, and not a number of epochs or batches."""
    return isinstance(over, ast.Call) and is_name(over.func, "range") and any(map(is_length, walk(over)))


def _split_said(m: Machine, over: ast.expr) -> str:
    """What the words of `enumerate(val_loader)`, `self.test_data`, `loaders["val"]`, `loaders[phase]` say of it."""
    if isinstance(over, ast.Call):
        found = {_split_said(m, arg) for arg in over.args} - {""}
        return found.pop() if len(found) == 1 else ""
    match over:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return split_of_name(name)
        case ast.Subscript(value=table, slice=key):
            known = m.lookup(key.id) if isinstance(key, ast.Name) else None
            word = key.value if isinstance(key, ast.Constant) else known.value if isinstance(known, Const) else None
            return (split_of_name(word) if isinstance(word, str) else "") or _split_said(m, table)
    return ""


def _count_on(m: Machine, node: ast.For | ast.AsyncFor, source: Value) -> None:
    """A counter that starts at nought is more from the second turn on: `if i == 0:` holds no longer."""
    if not isinstance(source, Object) or len(source.args) != 1 or source.kwargs:
        return
    counter: ast.expr | None = None
    if source.type == "builtins.range":
        counter = node.target
    elif source.type == "builtins.enumerate" and isinstance(node.target, ast.Tuple):
        counter = node.target.elts[0]
    value = m.lookup(counter.id) if isinstance(counter, ast.Name) else None
    if value is None or not isinstance(counter, ast.Name) or not _asks_whether_first(node, counter.id):
        return
    for operator, holds in ((ast.Eq(), False), (ast.Gt(), True)):
        known, key = truth(m, compare(m, operator, value, Const(0)))
        if known is None:
            m.assume(key, holds)


def _asks_whether_first(loop: ast.For | ast.AsyncFor, name: str) -> bool:
    """Whether the loop compares its counter with 0: what nobody asks need not be taken for granted."""
    return any(
        isinstance(node, ast.Compare)
        and is_name(node.left, name)
        and isinstance(node.comparators[0], ast.Constant)
        and node.comparators[0].value == 0
        for node in walk(loop)
    )


def while_loop(m: Machine, node: ast.While) -> bool:
    """Two turns, with the test evaluated before each; none where it is known to be false."""

    def enter() -> bool:
        known, key = truth(m, m.evaluate(node.test))
        if known is None:
            m.assume(key, True)
        loop.mark, loop.first = m.store.mark(), m.fresh()
        return known is not False

    loop = Loop(node, m.place(node))
    endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
    return _turns(m, loop, [enter, enter], node.body, node.orelse, endless)


def _turns(
    m: Machine,
    loop: Loop,
    binds: list[Callable[[], bool]],
    body: list[ast.stmt],
    orelse: list[ast.stmt],
    endless: bool,
) -> bool:
    start, facts, first = m.store.mark(), m.facts.total(), m.fresh()
    loop.began = first
    broken: list[Delta] = []
    entered = alive = True
    with turns.inside(m, loop):
        for bind in binds:
            loop.turn += 1
            before = m.store.delta(start)
            normal, exits = m.capture(lambda bind=bind: bind() and m.execute(body))  # type: ignore[misc]
            ends = [] if normal is None else [normal]
            leaving: list[Exit] = []
            for way in exits:
                if way.kind == "continue":
                    ends.append(way.delta)
                elif way.kind == "break":
                    broken.append({**before, **way.delta})
                else:
                    leaving.append(way)
            m.emit_again(leaving)
            entered = bool(ends) or bool(exits)
            if not ends:
                alive = not exits and loop.turn > 1
                break
            _forget(m, ends)
            m.merge(ends)
            if (
                loop.turn == 1
                and not loop.exact
                and facts == m.facts.total()
                and not turns.leaves_anything(m, start, first, loop.node)
            ):
                break
    if endless:
        alive = False
    return _after(m, start, broken, alive, entered, orelse)


def _forget(m: Machine, ends: list[Delta]) -> None:
    """What was assumed in one turn need not hold in the next."""
    for index, end in enumerate(ends):
        ends[index] = guards.settled(m, end)


def _after(m: Machine, start: int, broken: list[Delta], alive: bool, entered: bool, orelse: list[ast.stmt]) -> bool:
    if alive and orelse:
        normal, exits = m.capture(lambda: m.execute(orelse))
        m.emit_again(exits)
        alive = normal is not None
        if normal is not None:
            m.store.replay(normal)
    if not broken:
        return alive or not entered
    ends = [*([m.store.delta(start)] if alive else []), *broken]
    _forget(m, ends)
    m.store.undo(start)
    m.merge(ends)
    return True
