"""Gradients of one loss that another optimizer's step still finds, beside those of its own loss."""

from __future__ import annotations

from collections.abc import Hashable

from mlcheck.core.dataclasses import dataclass
from mlcheck.lint.facts import Backward, Grads, Place
from mlcheck.lint.interpret import guards
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.sites.training.critics import tells_apart


@dataclass(eq=False, slots=True)
class Mixed:
    """An optimizer stepped along the gradients of `place`, and along those that `earlier` had left there."""

    place: Place
    earlier: Place
    key: Hashable


def mixed(m: Machine, backward: Backward) -> None:
    """A second loss after an optimizer has stepped along the first one: whom did the first reach besides?

    That the two losses oppose each other is told by a discriminator: it sees what the other module made, and something
    else. Two tasks on one trunk, or an encoder and a decoder, may well add up what they want of each other.
    """
    optimizers = m.store.get(("optimizers",)) or ()
    for key in backward.reached:
        held = _only(m, key)
        first = _at(m, held) if held is not None and held.kind == "fresh" else None
        if first is None or first.place == backward.place or key not in first.reached:
            continue
        for rival in optimizers:
            used = _only(m, rival)
            if rival == key or rival not in first.reached or used is None or used.kind not in ("used", "clean"):
                continue
            if m.store.get(("stepped along", rival)) == first.place.spot and _oppose(m, (first, backward), key, rival):
                m.store.set(("mixed", key), Mixed(backward.place, first.place, key))


def stepped(m: Machine, key: Hashable) -> None:
    """A step along gradients; if they were mixed, now they have done harm."""
    held = _only(m, key)
    mix: Mixed | None = m.store.get(("mixed", key))
    if held is not None and held.kind == "fresh" and held.place is not None:
        m.store.set(("stepped along", key), held.place.spot)
        if mix is not None and mix.place == held.place:
            m.facts.training.mixed.append(mix)


def _only(m: Machine, key: Hashable) -> Grads | None:
    """The one state its gradients can be in; None where there are several."""
    found = guards.possible(m, m.store.get(("grads", key)) or frozenset())
    return next(iter(found)) if len(found) == 1 else None


def _at(m: Machine, held: Grads) -> Backward | None:
    """The latest backward pass at the place that the gradients are from."""
    return next((fact for fact in reversed(m.facts.backwards[:-1]) if fact.place == held.place), None)


def _owned(m: Machine, key: Hashable) -> frozenset[Hashable]:
    found: frozenset[Hashable] = m.store.get(("owns", key)) or frozenset()
    return found


def _oppose(m: Machine, losses: tuple[Backward, Backward], key: Hashable, rival: Hashable) -> bool:
    """Whether the rival is the discriminator of what this optimizer's module makes, or the other way round."""
    own, other = _owned(m, key), _owned(m, rival)
    if not own.isdisjoint(other):
        return False
    first, second = losses
    if rival in second.reached:
        return tells_apart(other, own, first.forwards)
    return tells_apart(own, other, second.forwards)
