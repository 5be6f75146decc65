"""Queries that no user should send and somebody will: empty, enormous, not a number, of another type."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

_LONG_TEXT = 1_000_000
_LONG_LIST = 100_000


def broken_queries(query: Any) -> Iterator[tuple[str, Any]]:
    """A name and a value for each way in which `query` can be broken; what does not apply is left out."""
    yield "nothing (null)", None
    if isinstance(query, dict):
        yield "an empty object", {}
    seen = [repr(query)]
    for name, change in _CHANGES:
        changed = _changed(query, change)
        if repr(changed)[:10_000] not in seen:
            seen.append(repr(changed)[:10_000])
            yield name, changed


def _changed(value: Any, change: Callable[[Any], Any]) -> Any:
    """`value` with `change` made to every field of an object, or to the value itself; lists are single values."""
    if isinstance(value, dict):
        return {key: _changed(entry, change) for key, entry in value.items()}
    return change(value)


def _emptied(value: Any) -> Any:
    return type(value)() if isinstance(value, str | bytes | list) else value


def _not_a_number(value: Any) -> Any:
    """NaN for the first number of a list, and for a number itself."""
    if isinstance(value, list) and value:
        return [_not_a_number(value[0]), *value[1:]]
    return math.nan if _is_number(value) else value


def _infinite(value: Any) -> Any:
    if isinstance(value, list) and value:
        return [_infinite(value[0]), *value[1:]]
    return math.inf if _is_number(value) else value


def _enormous(value: Any) -> Any:
    if isinstance(value, str | bytes) and value:
        return value * (_LONG_TEXT // len(value))
    if isinstance(value, list) and value:
        return value * max(2, _LONG_LIST // _entries(value))
    return value


def _entries(value: Any) -> int:
    return sum(_entries(entry) for entry in value) if isinstance(value, list) else 1


def _other_type(value: Any) -> Any:
    if isinstance(value, str):
        return 7
    return "seven" if _is_number(value) or isinstance(value, list | bytes) else value


def _odd_text(value: Any) -> Any:
    return "\x00\u202e\U0001f642 \ud800" if isinstance(value, str) else value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_CHANGES = (
    ("empty fields", _emptied),
    ("NaN", _not_a_number),
    ("infinity", _infinite),
    ("a wrong type", _other_type),
    ("odd characters", _odd_text),
    ("enormous", _enormous),
)
