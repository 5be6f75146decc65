"""Regular expressions that are compiled when first asked: lint has a hundred, and asks few of them of one file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from re import compile as pattern

__all__ = ["pattern"]

_METHODS = ("search", "match", "fullmatch", "finditer", "findall", "sub", "split")


class _Pattern:
    """Stands for what `re.compile` returns. An error in the expression is raised at its first use."""

    def __init__(self, text: str, flags: int = 0) -> None:
        self._given = text, flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(*self.__dict__["_given"])
        self.__dict__.update({method: getattr(compiled, method) for method in _METHODS})
        return getattr(compiled, name)


if not TYPE_CHECKING:
    pattern = _Pattern
