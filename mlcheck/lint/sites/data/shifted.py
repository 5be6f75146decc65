"""Targets that a data set has put one token ahead of its inputs: `return tokens[:-1], tokens[1:]`."""

from __future__ import annotations

import ast
from collections import Counter

from mlcheck.lint.nodes import before_methods
from mlcheck.lint.sites.data.batch_items import behind_loaders
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.divergences import terms
from mlcheck.lint.sites.origins import Origin, origins, returns, sole
from mlcheck.lint.sites.scopes import Context

AS_IT_IS = ("clone", "contiguous", "to", "cuda", "long", "view", "reshape", "flatten", "transpose", "float")
_AHEAD, _BEHIND = ("1:", ":, 1:", "..., 1:"), (":-1", ":, :-1", "..., :-1")
_WRAPS = ("torch.tensor", "torch.as_tensor", "torch.LongTensor", "torch.from_numpy")
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
        further = [one._replace(node=_tokens(one.file, one.node, one.context)) for one in further]
        for one in further:
            done = one.node is each.node or isinstance(one.node, ast.Subscript)
            (found if done else todo).append(one)
    return found[0] if found and not todo and all(map(_is_ahead_of_input, found)) else None


def _is_ahead_of_input(target: Origin) -> bool:
    sample = target.file.function_around(target.context)
    if not isinstance(target.node, ast.Subscript):
        return False
    name = ast.unparse(target.node.value)
    beside = [part for given in (returns(sample) if sample is not None else ()) for part in _parts(given)]
    held = [_tokens(target.file, part, target.context) for part in beside]
    cuts = [part for part in held if isinstance(part, ast.Subscript)]
    if any(_is_next(target.node, part) for part in cuts) or _are_rows_of_next(target, target.node, cuts):
        return True
    if ast.unparse(target.node.slice).strip("()") not in _AHEAD:
        return False
    whole, _ = source(target.file, target.node.value, target.context)
    copied = ast.unparse(before_methods(whole, ("masked_fill", *AS_IT_IS)))
    behind = [f"{tokens}[{cut}]" for cut in _BEHIND for tokens in (name, copied)]
    return any(ast.unparse(before_methods(part, AS_IT_IS)) in behind for part in held)


def _tokens(file: File, node: ast.expr, context: Context) -> ast.expr:
    """`ids[i : i + n]` of `torch.tensor(ids[i : i + n])`."""
    made, where = source(file, before_methods(node, AS_IT_IS), context)
    while isinstance(made, ast.Call) and file.called(made, where) in _WRAPS and made.args:
        made, where = source(file, before_methods(made.args[0], AS_IT_IS), where)
    return made


def _are_rows_of_next(here: Origin, target: ast.Subscript, beside: list[ast.Subscript]) -> bool:
    """`self.targets[i]` beside `self.inputs[i]`, where they were cut from the same tokens, one of them ahead."""
    rows = [part for part in beside if ast.unparse(part.slice) == ast.unparse(target.slice)]
    whole = [_cut_from(here, part.value) for part in (target, *rows)] if isinstance(target.slice, ast.Name) else []
    cuts = [part for part in whole if isinstance(part, ast.Subscript)]
    return len(cuts) == len(whole) and any(_is_next(cuts[0], part) for part in cuts[1:])


def _cut_from(here: Origin, node: ast.expr) -> ast.expr | None:
    found = sole(here.file, node, here.context)
    return _tokens(found.file, found.node, found.context) if found is not None and found.item < 0 else None


def _is_next(target: ast.Subscript, given: ast.Subscript) -> bool:
    """`ids[i + 1 : i + n + 1]` beside `ids[i : i + n]`: it begins one place further."""
    if ast.unparse(target.value) != ast.unparse(given.value):
        return False
    match target.slice, given.slice:
        case ast.Slice(lower=ast.expr() as ahead, step=None), ast.Slice(lower=begin, step=None):
            further = _summed(ahead)
            further.subtract(_summed(begin) if begin is not None else {})
            return {term: number for term, number in further.items() if number} == {"": 1}
    return False


def _summed(node: ast.expr) -> Counter[str]:
    """The terms of a sum, by their text; the whole numbers under ""."""
    found: Counter[str] = Counter()
    for sign, term in terms(node, 1):
        number = term.value if isinstance(term, ast.Constant) and isinstance(term.value, int) else None
        found["" if number is not None else ast.unparse(term)] += sign * (1 if number is None else number)
    return found


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
