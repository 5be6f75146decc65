"""`try`, and what runs on every way out of a block."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from mlcheck.lint.interpret.frames import Exit
from mlcheck.lint.interpret.joins import join_values
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.values import NONE, Value


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
    return join_values(m, [value or NONE for value in values], None)


def attempt(m: Machine, node: ast.Try) -> bool:
    """`try`: the handlers start from the state at its beginning, and `finally` runs on every way out."""

    def guarded() -> bool:
        normal, exits = m.capture(lambda: m.execute([*node.body, *node.orelse]))
        m.emit_again(exits)
        ends = [] if normal is None else [normal]
        for handler in node.handlers:

            def run(handler: ast.ExceptHandler = handler) -> bool:
                if handler.name:
                    m.bind(handler.name, m.symbol(handler.name))
                return m.execute(handler.body)

            rescued, exits = m.capture(run)
            m.emit_again(exits)
            if rescued is not None:
                # An exception is the rare way: it tells of variables, not of the usual course of training.
                kept = rescued if normal is None else {c: v for c, v in rescued.items() if c[0] in ("v", "a")}
                ends.append(kept)
        if ends:
            m.merge(ends, ("raised", m.fresh()))
        return bool(ends)

    if not node.finalbody:
        return guarded()
    return protect(m, guarded, lambda: m.execute(node.finalbody))
