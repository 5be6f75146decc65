"""What happens in every turn of a loop, and what only where some condition holds."""

from __future__ import annotations

from collections.abc import Hashable

from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.interpret.store import Delta


def always(m: Machine, depth: int = -1) -> bool:
    """Whether nothing was taken for granted since this iteration of that loop, or the program, began."""
    return _nothing_granted(m, m.loops[depth].mark if m.loops else 0)


def is_certain(m: Machine) -> bool:
    """Whether every run of the program comes here."""
    return _nothing_granted(m, 0)


def _nothing_granted(m: Machine, mark: int) -> bool:
    return all(
        m.store.get(cell) is None or m.store.get(("sure", cell[1])) is not None for cell in m.store.changed(mark, "if")
    )


def assume_or_end(m: Machine, key: Hashable) -> None:
    """`assert ready`: whoever comes past it has this condition, and nobody goes another way."""
    mark = m.store.mark()
    m.assume(key, True)
    _make_sure(m, mark)


def others_end(m: Machine, end: Delta, key: Hashable, holds: bool) -> Delta:
    """The one way on from `if bad: raise`: what holds on it is no choice of the program."""
    mark = m.store.mark()
    m.assume(key, holds)
    _make_sure(m, mark)
    sure = {cell: value for cell, value in m.store.delta(mark).items() if cell[0] == "sure"}
    m.store.undo(mark)
    return {**end, **sure}


def _make_sure(m: Machine, mark: int) -> None:
    for cell in list(m.store.changed(mark, "if")):
        if m.store.get(cell) is not None:
            m.store.set(("sure", cell[1]), True)


def assumed(m: Machine) -> frozenset[Hashable]:
    """All conditions that this path takes for decided."""
    return frozenset(cell[1] for cell in m.store.changed(0, "if") if m.store.get(cell) is not None)


def decided(m: Machine) -> frozenset[Hashable]:
    """The same conditions, and which way each of them went."""
    cells = ((cell[1], m.store.get(cell)) for cell in m.store.changed(0, "if"))
    return frozenset((key, holds) for key, holds in cells if holds is not None)
