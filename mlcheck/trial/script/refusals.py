"""Who is asked before a file is opened, by any way that Python knows of."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

Refusal = Callable[[Any, Any, int], None]
"""Gets the path, the mode (None for `os.open`) and the flags; raises where it may not be."""


@functools.cache
def refusals() -> list[Refusal]:
    """Those of this process, asked by one audit hook: Python takes none back, and each is called at every event."""
    asked: list[Refusal] = []

    def hear(event: str, given: tuple[Any, ...]) -> None:
        if event == "open":
            for refuse in asked:
                refuse(*given)

    sys.addaudithook(hear)
    return asked
