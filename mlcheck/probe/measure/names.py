"""Names in a sentence."""

from __future__ import annotations


def listed(names: list[str], most: int = 4) -> str:
    """`a`, `b` and 7 more."""
    shown = ", ".join(f"`{name}`" for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def part_of(whole: str, name: str) -> str:
    """A tensor's dotted name as its place in a batch or sample: `batch[1]`; a key or a field is clear by itself."""
    parts = name.split(".") if name else []
    path = "".join(f"[{part}]" if part.isdecimal() else f".{part}" for part in parts)
    return path[1:] if parts and not parts[0].isdecimal() else whole + path
