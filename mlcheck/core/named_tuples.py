"""`typing.NamedTuple` without most of what it takes to make one: lint makes fifty at each start.

The standard one compiles every annotation, to see whether it may be a type; mypy has seen that already.
"""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import NamedTuple

__all__ = ["NamedTuple"]


class _Maker(type):
    """Makes of a class with annotations what `collections.namedtuple` makes of their names."""

    def __new__(cls, name: str, _: tuple[type, ...], body: dict[str, Any]) -> Any:
        hints = body["__annotations__"]
        defaults = [body[each] for each in hints if each in body]
        made: Any = namedtuple(name, hints, defaults=defaults, module=body["__module__"])  # type: ignore[misc]
        for key, value in body.items():
            if key not in hints:
                setattr(made, key, value)
        return made


if not TYPE_CHECKING:
    NamedTuple = type.__new__(_Maker, "NamedTuple", (), {})
