"""Targets that a data set has put one token ahead of its inputs: `return tokens[:-1], tokens[1:]`."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import before_methods
from mlcheck.lint.sites.data.batch_items import behind_loaders
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.origins import Origin, origins, returns
from mlcheck.lint.sites.scopes import Context

AS_IT_IS = ("clone", "contiguous", "to", "cuda", "long", "view", "reshape", "flatten", "transpose", "float")
_STEPS = 8


def shifted_by_sample(file: File, node: ast.expr, context: Context) -> Origin | None:
    """The `tokens[1:]` that a data set returns beside `tokens[:-1]`, if that is all the value may be."""
    todo, found = [Origin(file, node, context)], list[Origin]()
    for _ in range(_STEPS):
        if not todo:
            break
        each = todo.pop()
        inner = before_methods(each.node, AS_IT_IS)
        further = [more for one in origins(each.file, inner, each.context) for more in behind_loaders(one)]
        for one in further:
            done = one.node is each.node or isinstance(one.node, ast.Subscript)
            (found if done else todo).append(one)
    return found[0] if found and not todo and all(map(_is_ahead_of_input, found)) else None


def _is_ahead_of_input(target: Origin) -> bool:
    sample = target.file.function_around(target.context)
    match target.node:
        case ast.Subscript(value=tokens, slice=ast.Slice(lower=ast.Constant(value=1), upper=None, step=None)):
            name = ast.unparse(tokens)
        case _:
            return False
    beside = [part for given in (returns(sample) if sample is not None else ()) for part in _parts(given)]
    held = [source(target.file, before_methods(part, AS_IT_IS), target.context)[0] for part in beside]
    return any(ast.unparse(before_methods(part, AS_IT_IS)) == f"{name}[:-1]" for part in held)


def _parts(given: ast.expr) -> list[ast.expr]:
    """What a data set returns for a sample, one by one."""
    match given:
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
            return parts
    return []
