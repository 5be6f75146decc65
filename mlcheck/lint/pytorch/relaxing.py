"""What a condition leaves open: gradients cleared, or a mode changed, behind it."""

from __future__ import annotations

from collections.abc import Hashable

from mlcheck.lint.facts import Grads, Mode
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.interpret.store import Delta
from mlcheck.lint.pytorch.accumulation import counts


def relax(m: Machine, ends: list[Delta], key: Hashable) -> None:
    """Clearing or a change of mode behind a condition: where it was skipped, what holds is not known.

    `if i % n == 0: optimizer.zero_grad()` is a decision, not an omission; and so is `if restore: model.train()`,
    but not `if accuracy > best: model.train()`. Every so many turns is a decision, too.
    """
    while isinstance(key, tuple) and key and key[0] == "not":
        key = key[1]
    compared = isinstance(key, tuple) and key and key[0] in ("<", "==") and not counts(key)
    for changed, other in ((ends[0], ends[1]), (ends[1], ends[0])):
        for cell, value in changed.items():
            if cell[0] not in ("grads", "mode"):
                continue
            base = m.store.get(cell)
            if not base or _same(value, base) or not _same(other.get(cell, base), base):
                continue
            kinds = {state.kind for state in value}
            if cell[0] == "grads" and kinds & {"clean", "erased", "unknown", "added"}:
                before = other.get(cell, base)
                kept = [Grads("unknown") if grads.kind in ("used", "stale", "added") else grads for grads in before]
                other[cell] = frozenset(kept)
            elif cell[0] == "mode" and not compared:
                stamp = max(mode.stamp for mode in base)
                other[cell] = frozenset(
                    mode if mode.kind in kinds else Mode("unknown", mode.place, mode.when, stamp) for mode in base
                )


def _same(one: frozenset[Grads | Mode], other: frozenset[Grads | Mode]) -> bool:
    """Whether nothing was done, apart from noting how a test was answered."""
    if one == other:
        return True
    return all(isinstance(state, Grads) for state in one | other) and (
        {state._replace(choice=None) for state in one if isinstance(state, Grads)}
        == {state._replace(choice=None) for state in other if isinstance(state, Grads)}
    )
