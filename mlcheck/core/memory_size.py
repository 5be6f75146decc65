"""Amounts of memory as people write them."""

from __future__ import annotations

import re

from mlcheck.core.patterns import pattern

_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_FORM = pattern(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]i?B)\s*", re.IGNORECASE)


def byte_count(text: str) -> int:
    """`800MB`, `1.5 GiB` in bytes. Raises ValueError, in one sentence, for anything else."""
    match = _FORM.fullmatch(text)
    if not match or not float(match[1]):
        raise ValueError(f"`{text}` is no amount of memory: write it as 800MB or 8GB")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def written(size: float) -> str:
    """`1.5 GB`, `800 MB`."""
    unit = "GB" if size >= 10**9 else "MB"
    return f"{size / _UNITS[unit]:.3g} {unit}"
