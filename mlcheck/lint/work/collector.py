"""Python's collector of reference cycles, which is of no use to a run of lint."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_cycle_collector() -> Iterator[None]:
    """Syntax trees and facts are millions of objects with few cycles: looking for some takes half of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
