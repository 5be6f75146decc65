"""The loss scale of mixed precision, and clipping, which must not see it."""

from __future__ import annotations

import ast
from collections.abc import Hashable

from mlcheck.lint.facts import Clip, Grads
from mlcheck.lint.interpret import containers, guards
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.pytorch import modes
from mlcheck.lint.values import Const, Object, Params, Symbol, Tensor, Value, owner_key, traces_of

_UNKNOWN = frozenset([Grads("unknown")])


def scale(m: Machine, scaler: Value, loss: Value) -> Value:
    """`scaler.scale(loss)`; a scaler built with enabled=False leaves the loss alone."""
    if is_off(scaler):
        return loss
    split = loss.split if isinstance(loss, Tensor | Symbol) else ""
    return Tensor("scaled", None, split, traces_of(loss), scaler)


def is_on(scaler: Value | None) -> bool:
    """Whether it is a gradient scaler that is switched on for certain."""
    return (
        isinstance(scaler, Object)
        and ("enabled" not in scaler.kwargs or scaler.kwargs["enabled"] == Const(True))
        and "**" not in scaler.kwargs
    )


def is_off(scaler: Value) -> bool:
    """Whether it is a gradient scaler that was made with `enabled=False`: it neither multiplies nor divides."""
    enabled = scaler.kwargs.get("enabled") if isinstance(scaler, Object) else None
    return isinstance(enabled, Const) and not enabled.value


def unscale(m: Machine) -> None:
    """`scaler.unscale_(optimizer)`; gradients that were never scaled are divided all the same, and stay on record."""
    states = guards.possible(m, m.store.get(("scaling",)) or _UNKNOWN)
    unscaled = (s if s.kind == "plain" and s.place else Grads("unscaled", under=s.under) for s in states)
    m.store.set(("scaling",), frozenset(unscaled))


def clip(m: Machine, node: ast.AST, name: str, of: Value | None = None) -> None:
    """Gradients of the parameters `of` are clipped."""
    merged = containers.merged_params(m, [of]) if of is not None else None
    owners = merged.owners if isinstance(merged, Params) else frozenset()
    optimizers = m.store.get(("optimizers",)) or ()
    found: frozenset[Grads] = frozenset()
    for key in optimizers:
        owned = m.store.get(("owns", key)) or frozenset()
        is_known = bool(owned and owners)
        if _overlap(m, owned, owners) if is_known else len(optimizers) == 1:
            found |= guards.possible(m, m.store.get(("grads", key)) or _UNKNOWN)
        elif not is_known:
            found |= _UNKNOWN
    scaled = guards.possible(m, m.store.get(("scaling",)) or _UNKNOWN)
    m.facts.clips.append(Clip(m.place(node), name, scaled, found))


def _overlap(m: Machine, one: frozenset[Hashable], other: frozenset[Hashable]) -> bool:
    """Whether two sets of modules share parameters."""
    if not one.isdisjoint(other) or not one.isdisjoint(held(m, other)):
        return True
    return not one.isdisjoint({o for i in other for o in modes.ancestors(m, i)}) or not other.isdisjoint(
        {o for i in one for o in modes.ancestors(m, i)}
    )


def held(m: Machine, owners: frozenset[Hashable]) -> set[Hashable]:
    """What the modules have as attributes, be it a module for certain or only by its use."""
    names = [(owner, name) for owner in owners for name in m.store.get(("attrs", owner)) or ()]
    return {owner_key(m.store.get(("a", owner, name))) for owner, name in names} - {None}
