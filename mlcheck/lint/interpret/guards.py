"""Conditions that answer alike in every turn of a loop, and what is known of the gradients under each answer."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING

from mlcheck.lint.facts import Grads
from mlcheck.lint.interpret.store import Delta

if TYPE_CHECKING:
    from mlcheck.lint.interpret.machine import Machine

_GUARDED = ("grads", "scaling")
_UNKNOWN = frozenset([Grads("unknown")])


def settled(m: Machine, end: Delta) -> Delta:
    """The end of a path, without what it took for decided.

    Of conditions as old as the loop around, which answer alike in its next turn, its gradients keep the answers.
    """
    rest = {cell: value for cell, value in end.items() if cell[0] != "if"}
    if not m.loops or len(rest) == len(end) or not any(cell[0] in _GUARDED for cell in rest):
        return rest
    began = m.loops[-1].began
    answers = frozenset(
        (cell[1], value)
        for cell, value in end.items()
        if cell[0] == "if" and value is not None and _is_older(cell[1], began)
    )
    for cell in [cell for cell in rest if answers and cell[0] in _GUARDED and rest[cell]]:
        rest[cell] = frozenset(grads._replace(under=grads.under | answers) for grads in rest[cell])
    return rest


def united(states: Iterable[frozenset[Grads]]) -> frozenset[Grads]:
    """All of them, each once: under the answers that are common to all its paths."""
    under: dict[Grads, frozenset[tuple[Hashable, bool]]] = {}
    for grads in (grads for state in states for grads in state):
        bare = grads._replace(under=frozenset())
        under[bare] = under[bare] & grads.under if bare in under else grads.under
    return frozenset(bare._replace(under=answers) if answers else bare for bare, answers in under.items())


def held(m: Machine, optimizer: Hashable) -> frozenset[Grads]:
    """The states that an optimizer's gradients may be in here."""
    return possible(m, m.store.get(("grads", optimizer)) or _UNKNOWN)


def possible(m: Machine, found: frozenset[Grads]) -> frozenset[Grads]:
    """Those that this path can meet, for what it has taken for decided."""
    if not any(grads.under for grads in found):
        return found
    kept = frozenset(grads for grads in found if all(m.assumed(key) is not (not holds) for key, holds in grads.under))
    return kept or found


def _is_older(key: Hashable, began: int) -> bool:
    """Whether the condition is about nothing that came to be since then."""
    if isinstance(key, tuple):
        return (len(key) == 3 and key[0] == "const") or all(_is_older(part, began) for part in key)
    return not isinstance(key, int) or isinstance(key, bool) or key < began
