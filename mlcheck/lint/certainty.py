"""What happens in every turn of a loop, and what only where some condition holds."""

from __future__ import annotations

from collections.abc import Hashable

from mlcheck.lint.machine import Machine


def always(m: Machine, depth: int = -1) -> bool:
    """Whether nothing was taken for granted since this iteration of that loop, or the program, began."""
    mark = m.loops[depth].mark if m.loops else 0
    return all(m.store.get(cell) is None for cell in m.store.changed(mark, "if"))


def assumed(m: Machine) -> frozenset[Hashable]:
    """All conditions that this path takes for decided."""
    return frozenset(cell[1] for cell in m.store.changed(0, "if") if m.store.get(cell) is not None)
