"""Names in a sentence."""

from __future__ import annotations


def listed(names: list[str], most: int = 4) -> str:
    """`a`, `b` and 7 more."""
    shown = ", ".join(f"`{name}`" for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
