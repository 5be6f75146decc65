"""A number and what it counts, as one writes it."""

from __future__ import annotations

_WITH_ES = ("s", "x", "ch", "sh")


def plural(number: int, thing: str) -> str:
    """`1 loss`, `2 losses`, `1,000 files`, `3 validation batches`, `2 queries`."""
    if number == 1:
        return f"1 {thing}"
    if thing.endswith("y") and not thing.endswith(("ay", "ey", "oy", "uy")):
        return f"{number:,} {thing[:-1]}ies"
    return f"{number:,} {thing}{'es' if thing.endswith(_WITH_ES) else 's'}"
