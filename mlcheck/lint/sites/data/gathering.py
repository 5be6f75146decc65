"""What is gathered batch by batch: from an expression back to the loop that fills it, and to what that goes over."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import before_methods, is_name, last_name, walk
from mlcheck.lint.sites.iteration import iteration_of
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.returning import returns

_KEEPS = frozenset(["argmax", "numpy", "cpu", "detach", "tolist", "squeeze", "flatten", "ravel", "reshape", "view"])
_KEEPS |= {"sigmoid", "softmax", "exp", "round", "int", "long", "float", "astype", "clip", "clamp", "item"}
_JOINS = ("cat", "concat", "concatenate", "vstack", "hstack", "stack", "array", "asarray", "list", "tensor", "tuple")
_ADDS = ("append", "extend")
_ORDERED = pattern(r"sort|order|index|\bidx|indices|\bids?\b|scatter|dist\.|gather")
_DEPTH = 6


def gathered_from(found: Origin, depth: int = _DEPTH) -> Iterator[Origin]:
    """What the loops go over that fill this value, batch by batch and in the order in which they come."""
    file, context = found.file, found.context
    if depth == 0 or _ORDERED.search(ast.unparse(found.node)):
        return
    node = found.node
    while (inner := before_methods(node, _KEEPS)) is not node or _is_joined(node):
        node = node.args[0] if inner is node and isinstance(node, ast.Call) else inner
    if isinstance(node, ast.ListComp):
        if len(node.generators) == 1 and not node.generators[0].ifs:
            yield found._replace(node=iteration_of(node.generators[0]).over, context=context)
    elif isinstance(node, ast.Name):
        bound, where = source(file, node, context)
        if isinstance(bound, ast.List) and not bound.elts:
            yield from _filled(found._replace(context=context), node.id)
        elif bound is not node:
            yield from gathered_from(found._replace(node=bound, context=where), depth - 1)
    elif isinstance(node, ast.Call):
        named = file.resolve(node.func, context)
        if isinstance(named, Function) and not _ORDERED.search(named.text) and len(list(returns(named))) == 1:
            for answer in origins(file, node, context, found.entered):
                if answer.node is not node:
                    yield from gathered_from(answer, depth - 1)


def _is_joined(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) in _JOINS and bool(node.args)


def _filled(found: Origin, name: str) -> Iterator[Origin]:
    """The loops of the function that append to the list."""
    function = found.file.function_around(found.context)
    for loop in function.all(ast.For) if function is not None else ():
        calls = (node.func for line in loop.body for node in walk(line) if isinstance(node, ast.Call))
        adds = any(isinstance(f, ast.Attribute) and f.attr in _ADDS and is_name(f.value, name) for f in calls)
        inner = any(other in walk(loop) for other in function.all(ast.For) if other is not loop) if function else True
        if function is not None and adds and not inner:
            yield found._replace(node=iteration_of(loop).over, context=function.inner)
