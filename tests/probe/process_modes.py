"""Torch's modes are the process's, and a trainer sets them for good: no test hands them on to the next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mlcheck.trial.modes import mode_cells

PYTESTS_OWN = ("the environment", "the filters of warnings", "the working directory")


@contextmanager
def modes_put_back() -> Iterator[None]:
    """Within, a program may set the modes of torch and numpy as it likes."""
    cells = [cell for cell in mode_cells() if cell.name not in PYTESTS_OWN]
    yield
    for cell in cells:
        cell.restore()
