"""Calls of a model that give two inputs in each other's place, by the very names of its parameters."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import combinations

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.facts import Facts, Place
from mlcheck.lint.nodes import before_methods, last_name
from mlcheck.lint.values import Object

_SHORT = 3
_MOVES = ("to", "cuda", "cpu", "float", "double", "half", "detach", "clone", "contiguous")


class CrossedInputs(NamedTuple):
    """The first of the two arguments, the parameters that they stand in for, and the `forward` that takes them."""

    place: Place
    names: tuple[str, str]
    forward: Place


def crossed_inputs(facts: Facts) -> Iterator[CrossedInputs]:
    """`model(text, image)` of `forward(self, image, text)`, where no call of the model has them the other way round."""
    crossed: dict[tuple[Place, tuple[str, str]], list[Place]] = {}
    straight = set[tuple[Place, tuple[str, str]]]()
    for event in facts.forwards:
        cls = event.module.cls if isinstance(event.module, Object) else None
        method, call = cls.find("forward") if cls is not None else None, event.place.node
        if method is None or not isinstance(call, ast.Call) or any(isinstance(arg, ast.Starred) for arg in call.args):
            continue
        forward = Place(method.module.source.path, method.node, method.qualname)
        names = [arg.arg for arg in (*method.node.args.posonlyargs, *method.node.args.args)][1:]
        for (i, one), (j, other) in combinations(enumerate(call.args[: len(names)]), 2):
            here, there = (last_name(before_methods(given, _MOVES)) for given in (one, other))
            pair = (names[i], names[j])
            if (here, there) == pair:
                straight.add((forward, pair))
            elif (there, here) == pair and min(len(here), len(there)) > _SHORT:
                crossed.setdefault((forward, pair), []).append(event.place._replace(node=one))
    for (forward, pair), places in crossed.items():
        if (forward, pair) not in straight:
            yield from (CrossedInputs(place, pair, forward) for place in dict.fromkeys(places))
