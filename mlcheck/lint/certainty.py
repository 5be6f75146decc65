"""What happens in every turn of a loop, and what only where some condition holds."""

from __future__ import annotations

from mlcheck.lint.machine import Machine


def always(m: Machine, depth: int = -1) -> bool:
    """Whether nothing was taken for granted since this iteration of that loop, or the program, began."""
    mark = m.loops[depth].mark if m.loops else 0
    return all(cell[0] != "if" or m.store.get(cell) is None for cell in m.store.changed(mark))
