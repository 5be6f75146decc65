"""Regular expressions that are compiled when first asked: lint has a hundred, and asks few of them of one file.

`in` reads a text many times faster than an expression that begins with a choice. So a pattern may name words of which
one is in whatever it matches, and is not tried on other texts; of `gamma|discount` the words are the pattern itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, AnyStr

__all__ = ["pattern"]

_METHODS = ("search", "match", "fullmatch", "finditer", "findall", "sub", "split")
_WORDS = re.compile(r"\w+(?:\|\w+)+")


class _Pattern:
    """Stands for what `re.compile` returns. An error in the expression is raised at its first use."""

    def __init__(self, text: Any, flags: int = 0, words: Sequence[Any] = ()) -> None:
        self._given = text, flags
        self._words = words
        if not flags and isinstance(text, str) and _WORDS.fullmatch(text):
            self._words = text.split("|")

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(*self.__dict__["_given"])
        self.__dict__.update({method: getattr(compiled, method) for method in _METHODS})
        if words := self.__dict__["_words"]:
            self.__dict__["search"] = _searching(compiled, tuple(words))
        return self.__dict__[name] if name in self.__dict__ else getattr(compiled, name)


def _searching(compiled: re.Pattern[str], words: tuple[str, ...]) -> Callable[..., re.Match[str] | None]:
    def search(text: str, *bounds: int) -> re.Match[str] | None:
        for word in words:
            if word in text:
                return compiled.search(text, *bounds)
        return None

    return search


if TYPE_CHECKING:

    def pattern(text: AnyStr, flags: int = 0, words: Sequence[AnyStr] = ()) -> re.Pattern[AnyStr]: ...
else:
    pattern = _Pattern
