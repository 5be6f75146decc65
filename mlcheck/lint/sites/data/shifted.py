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
_AHEAD, _BEHIND = ("1:", ":, 1:", "..., 1:"), (":-1", ":, :-1", "..., :-1")
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
    if not isinstance(target.node, ast.Subscript) or ast.unparse(target.node.slice).strip("()") not in _AHEAD:
        return False
    name = ast.unparse(target.node.value)
    beside = [part for given in (returns(sample) if sample is not None else ()) for part in _parts(given)]
    held = [source(target.file, before_methods(part, AS_IT_IS), target.context)[0] for part in beside]
    whole, _ = source(target.file, target.node.value, target.context)
    copied = ast.unparse(before_methods(whole, ("masked_fill", *AS_IT_IS)))
    behind = [f"{tokens}[{cut}]" for cut in _BEHIND for tokens in (name, copied)]
    return any(ast.unparse(before_methods(part, AS_IT_IS)) in behind for part in held)


def shifted_in_batch(file: File, batch: ast.expr, context: Context, key: str) -> Origin | None:
    """The same of one entry of a batch, moved or not: `{k: v.to(device) for k, v in batch.items()}`."""
    found = [each for origin in origins(file, batch, context) for each in _moved_from(origin)]
    entries = [
        (each, ast.copy_location(ast.Subscript(each.node, ast.Constant(key), ast.Load()), each.node)) for each in found
    ]
    ahead = [shifted_by_sample(each.file, entry, each.context) for each, entry in entries]
    return ahead[0] if ahead and all(ahead) else None


def _moved_from(batch: Origin) -> list[Origin]:
    match batch.node:
        case ast.DictComp(
            generators=[ast.comprehension(iter=ast.Call(func=ast.Attribute(value=ast.Name() as whole, attr="items")))]
        ):
            return [each for each in origins(batch.file, whole, batch.context) if each.node is not batch.node]
    return [batch]


def _parts(given: ast.expr) -> list[ast.expr]:
    """What a data set returns for a sample, one by one."""
    match given:
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
            return parts
    return []
