"""Losses that a function returns among others, and of which the caller that learns from them reads only some."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import before_methods, is_name, last_name, reads_of, walk
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.origins import callers, returns

_SHAPES = ("mean", "sum", "squeeze")


class Unread(NamedTuple):
    """The call that unpacks what the function returns, and the name of the loss that nothing reads there."""

    call: Call
    name: str


def unread_answers(function: Function, loss: ast.AST) -> Iterator[Unread]:
    """`main, aux = losses(batch)`, where `aux` is this loss, and `main` alone is differentiated.

    Callers that train are told of only where none of them reads it.
    """
    answers = list(returns(function))
    parts = answers[0].elts if len(answers) == 1 and isinstance(answers[0], ast.Tuple) else []
    made = [before_methods(source(function.file, part, function.inner)[0], _SHAPES) for part in parts]
    places = [place for place, node in enumerate(made) if node is loss]
    if len(places) != 1:
        return
    training = [call for call in callers(function.file.sites, function) if _learns(call)]
    found = [_unread(call, places[0]) for call in training]
    if all(found):
        yield from (Unread(call, name) for call, name in zip(training, found, strict=True))


def _learns(call: Call) -> bool:
    nodes = call.function.nodes if call.function is not None else walk(call.file.module.source.tree)
    return any(isinstance(node, ast.Call) and last_name(node.func) == "backward" for node in nodes)


def _unread(call: Call, place: int) -> str:
    """The variable that the call's answer of that place is unpacked into, if nothing reads it."""
    nodes = call.function.nodes if call.function is not None else walk(call.file.module.source.tree)
    for line in nodes:
        if isinstance(line, ast.Assign) and line.value is call.node and isinstance(line.targets[0], ast.Tuple):
            targets = line.targets[0].elts
            name = last_name(targets[place]) if place < len(targets) else ""
            plain = place < len(targets) and is_name(targets[place], name) and not name.startswith("_")
            others = [other for other in targets if isinstance(other, ast.Name) and reads_of(nodes, other.id)]
            if plain and others and not reads_of(nodes, name) and "locals()" not in call.file.text:
                return name
    return ""
