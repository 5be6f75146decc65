"""What follows from what a path took for granted: a value that equals one constant equals none of the others."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mlcheck.lint.interpret.store import Store

if TYPE_CHECKING:
    from mlcheck.lint.interpret.machine import Machine


def implied(m: Machine, key: tuple[Any, ...]) -> bool | None:
    """What a condition comes to that was not decided itself."""
    if key and key[0] in ("and", "or"):
        stop, parts = key[0] == "or", [m.assumed(part) for part in key[1:]]
        return stop if stop in parts else None if None in parts else not stop
    return False if key and key[0] == "==" and _excluded(m.store, key) else None


def _excluded(store: Store, key: Hashable) -> bool:
    """Whether `kind == "a"` is asked where `kind == "b"` was taken for granted."""
    pair = _constant_of(key)
    if pair is None:
        return False
    value, constant = pair
    known = store.get(("if", ("is", value)))
    # Of 1, 1.0 and True each equals the others: only constants of the same type are told apart.
    return known is not None and known[1] == constant[1] and known[2] != constant[2]


def learn(store: Store, key: Hashable, known: bool | None) -> None:
    """The comparison was decided, or became undecided again (None)."""
    pair = _constant_of(key)
    if pair is not None and known is not False:
        store.set(("if", ("is", pair[0])), pair[1] if known else None)


@contextmanager
def supposing(m: Machine, key: Hashable, value: bool) -> Iterator[None]:
    """The condition taken for decided within, with all that follows from it; afterwards what was known before."""
    before = {cell: m.store.get(cell) for cell in _cells(key)}
    m.assume(key, value)
    try:
        yield
    finally:
        for cell, known in before.items():
            m.store.set(cell, known)


def _cells(key: Hashable) -> Iterator[Any]:
    """Where the answer to a condition, and to those it is made of, is kept."""
    yield ("if", key)
    pair = _constant_of(key)
    if pair is not None:
        yield ("if", ("is", pair[0]))
    if isinstance(key, tuple) and key and key[0] in ("not", "and", "or"):
        for part in key[1:]:
            yield from _cells(part)


def _constant_of(key: Hashable) -> tuple[Hashable, tuple[Hashable, ...]] | None:
    """What is compared, and the constant it is compared with, as `conditions.key_of` writes them."""
    if not isinstance(key, tuple) or len(key) != 3 or key[0] != "==":
        return None
    first, second = key[1:]
    if _is_constant(second) and not _is_constant(first):
        return first, second
    return (second, first) if _is_constant(first) and not _is_constant(second) else None


def _is_constant(part: Hashable) -> bool:
    return isinstance(part, tuple) and len(part) == 3 and part[0] == "const"
