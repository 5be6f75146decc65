"""What became of the lines of the query files."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueryFiles:
    """How many `lines` there were, and a sentence with file and line for each that is `broken`."""

    lines: int
    broken: tuple[str, ...] = ()
