"""Turns of a loop: being within one, and whether the next can meet anything that this one left."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager

from mlcheck.lint.facts import Loop, Place
from mlcheck.lint.interpret.frames import Frame
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.interpret.store import is_young
from mlcheck.lint.nodes import walk


@contextmanager
def inside(m: Machine, loop: Loop) -> Iterator[None]:
    m.loops.append(loop)
    try:
        yield
    finally:
        if m.loops and m.loops[-1] is loop:
            m.loops.pop()


def called_in_loop(m: Machine) -> Place | None:
    """The call by which the function around the innermost loop came to the one that runs, if that is another."""
    loop = m.loops[-1].place if m.loops else None
    inner: Frame | None = None
    for frame in reversed(m.frames):
        symbol = frame.info.qualname if frame.info else ""
        if loop is not None and (frame.module.source.path, symbol) == (loop.path, loop.symbol):
            return Place(loop.path, inner.node, symbol) if inner is not None and inner.node is not None else None
        inner = frame
    return None


def leaves_anything(m: Machine, start: int, first: int, node: ast.AST) -> bool:
    """Whether a turn, which began at that mark, changed anything that the next one can meet.

    Objects with an identity from `first` on are of this turn, and so is what the loop assigns to its targets.
    """
    target = getattr(node, "target", None)
    targets = {part.id for part in walk(target) if isinstance(part, ast.Name)} if target is not None else set()
    for cell, before in m.store.first_writes(start).items():
        if cell[0] == "if":
            continue
        if cell[0] == "v" and cell[1] == m.frame.scope and (before is None or cell[2] in targets):
            continue
        if before is None and is_young(cell[1] if len(cell) > 1 else None, first):
            continue
        value = m.store.get(cell)
        if value is not before and value != before:
            return True
    return False
