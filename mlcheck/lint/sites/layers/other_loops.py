"""Loops over weights that fill what another loop went over before: the variable of that is still there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import loads, walk
from mlcheck.lint.sites.layers.initialising import FILLS
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.project import Sites


class OtherLoop(NamedTuple):
    """The call that fills `read` in a loop over `over`, whose own variable nothing reads."""

    function: Function
    call: ast.Call
    read: str
    own: str


def filled_in_other_loops(sites: Sites) -> Iterator[OtherLoop]:
    """`for w in first: xavier_uniform_(w)`, and `for v in second: xavier_uniform_(w)`."""
    for file in sites.mentioning(["init"]):
        for function in file.functions:
            if function.text.count("for ") > 1 and FILLS.search(function.text):
                yield from _in(function)


def _in(function: Function) -> Iterator[OtherLoop]:
    loops = [loop for loop in function.all(ast.For) if isinstance(loop.target, ast.Name)]
    for loop in loops:
        own = loop.target.id if isinstance(loop.target, ast.Name) else ""
        if own.startswith("_") or any(loads(line, own) for line in loop.body):
            continue
        inside = {id(node) for node in walk(loop)}
        before = {
            other.target.id
            for other in loops
            if (other.end_lineno or 0) < loop.lineno and isinstance(other.target, ast.Name)
        }
        for line in loop.body:
            call = line.value if isinstance(line, ast.Expr) else None
            given = call.args[0] if isinstance(call, ast.Call) and call.args else None
            if not isinstance(call, ast.Call) or not isinstance(given, ast.Name) or given.id not in before - {own}:
                continue
            bound = function.file.bindings(given.id, function.inner)
            if all(isinstance(each.node, ast.For) and id(each.node) not in inside for each in bound):
                if function.file.called(call, function.inner).startswith("torch.nn.init."):
                    yield OtherLoop(function, call, given.id, own)
