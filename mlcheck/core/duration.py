"""Lengths of time as people write them."""

from __future__ import annotations

from mlcheck.core.patterns import pattern

_UNITS = {"": 1.0, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}
_FORM = pattern(r"\s*(\d+(?:\.\d+)?)\s*(s|min|m|h)?\s*")


def seconds(text: str) -> float:
    """`60`, `60s`, `1.5m` (or `min`), `2h` in seconds. Raises ValueError, in one sentence, for anything else."""
    match = _FORM.fullmatch(text)
    if not match or not float(match[1]):
        raise ValueError(f"`{text}` is no length of time: write it as 60, 60s, 2m or 1h")
    return float(match[1]) * _UNITS[match[2] or ""]
