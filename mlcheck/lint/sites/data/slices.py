"""Slices of the same data that are given the names of splits, and what two of them share."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.scopes import Context
from mlcheck.lint.values import split_of_name

_SHARE = pattern(r"int\((\d*\.\d+) \* (.+)\)|int\((.+) \* (\d*\.\d+)\)")
_TAKEN_OUT = ("not in ", "setdiff", "difference", "isin", "delete", "remove")
_EVERYTHING = "*"
_NUMBERS = ("int", "len", "round")


class Slice(NamedTuple):
    """`data[low:high]` of one part of the data; a bound is a share of `whole`, or a number of items where that is #.

    Where `whole` is *, it is all of the data, under another name.
    """

    split: str
    made: Context
    node: ast.expr
    low: float
    high: float
    whole: str


def shared(found: list[Slice]) -> Iterator[tuple[Slice, Slice]]:
    for learnt in found:
        for held in found if learnt.split == "train" else ():
            shared = max(learnt.low, held.low) < min(learnt.high, held.high)
            together = learnt.whole == held.whole and not learnt.made.excludes(held.made)
            together = together or (learnt.whole == _EVERYTHING and learnt.made is held.made)
            together = together or (_meet(learnt.node, held.node) and learnt.made is held.made)
            if held.split != "train" and together and shared:
                yield held, learnt


def _meet(one: ast.expr, other: ast.expr) -> bool:
    """`order[:cut]` and `order[:other]`, `order[:cut]` and `order[start:cut]`: they begin or end with the same item."""
    parts = [node.slice for node in (one, other) if isinstance(node, ast.Subscript)]
    both = [part for part in parts if isinstance(part, ast.Slice) and part.step is None]
    if len(both) != 2:
        return False
    lower, upper = ([part.lower for part in both], [part.upper for part in both])
    return any(_is_same(*ends) for ends in (lower, upper))


def _is_same(one: ast.expr | None, other: ast.expr | None) -> bool:
    return one is other is None or (one is not None and other is not None and ast.unparse(one) == ast.unparse(other))


def slices_of(file: File, scope: ast.AST, context: Context, text: str) -> dict[str, list[Slice]]:
    """The slices that are bound to a name of a split, by what they are taken of; none of what is bound twice."""
    nodes = file.nodes_in(scope)
    stored = {node.arg: 1 for node in nodes if isinstance(node, ast.arg)}
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stored[node.id] = stored.get(node.id, 0) + 1
    all_of = not any(word in text for word in _TAKEN_OUT)
    found: dict[str, list[Slice]] = {}
    for node in nodes:
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        for target, value in _pairs(node.targets[0], node.value):
            split = split_of_name(target)
            parts = [part for part in walk(value) if isinstance(part, ast.Subscript)] if split else []
            inside = (
                {part for each in walk(value) if isinstance(each, ast.Lambda) for part in walk(each)} if parts else {}
            )
            parts = [part for part in parts if part not in inside]
            counted = _counted(value) if any(isinstance(part.slice, ast.Slice) for part in parts) else set()
            order = _order(value, nodes)
            whole = split == "train" and all_of and _is_all(target, order, stored)
            bindings = file.bindings(target, context) if parts or whole else []
            made = next((binding.context for binding in bindings if binding.node is node), context)
            if whole:
                everything = Slice(split, made, value, 0.0, float("inf"), _EVERYTHING)
                found.setdefault(ast.unparse(order), []).append(everything)
            for part in parts:
                if isinstance(part.slice, ast.Slice) and part not in counted:
                    bounds = _bounds(part.slice) or _as_written(part.slice)
                    if bounds is not None and _are_settled(part, stored):
                        found.setdefault(ast.unparse(part.value), []).append(Slice(split, made, part, *bounds))
    return found


def _order(value: ast.expr, nodes: list[ast.AST]) -> ast.expr:
    """`order` of `Subset(data, order)`, where all subsets made there are of the same data."""
    if not isinstance(value, ast.Call) or last_name(value.func) != "Subset" or len(value.args) != 2:
        return value
    subsets = [node for node in nodes if isinstance(node, ast.Call) and last_name(node.func) == "Subset" and node.args]
    return value.args[1] if len({ast.unparse(each.args[0]) for each in subsets}) == 1 else value


def _is_all(target: str, value: ast.expr, stored: dict[str, int]) -> bool:
    """`train_index = order`, of an order that is bound once and is no split itself."""
    named = isinstance(value, ast.Name) and not split_of_name(value.id)
    return named and stored.get(target) == stored.get(ast.unparse(value)) == 1


def _counted(value: ast.expr) -> set[ast.AST]:
    """What only a number is made of: `lengths[:2]` in `torch.arange(sum(lengths[:2]), total)`."""
    calls = [node for node in walk(value) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    return {part for call in calls if ast.unparse(call.func) in ("sum", "len", "max", "min") for part in walk(call)}


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for one, other in zip(target.elts, value.elts, strict=True):
            yield from _pairs(one, other)
    elif isinstance(target, ast.Name):
        yield target.id, value


def _bounds(node: ast.Slice) -> tuple[float, float, str] | None:
    """Where it begins and ends, and of what these are shares."""
    if node.step is not None or (node.lower is None and node.upper is None):
        return None
    low = (0.0, "") if node.lower is None else _bound(node.lower)
    high = (float("inf"), "") if node.upper is None else _bound(node.upper)
    if low is None or high is None or (low[1] != high[1] and node.lower is not None and node.upper is not None):
        return None
    return low[0], high[0], low[1] or high[1] or "#"


def _as_written(node: ast.Slice) -> tuple[float, float, str] | None:
    """`order[:cut]` is all of `order[:cut]`, whatever that is, and cannot be compared with any other."""
    calls = any(isinstance(part, ast.Call) and last_name(part.func) not in _NUMBERS for part in walk(node))
    return None if calls or node.step is not None else (0.0, 1.0, ast.unparse(node))


def _are_settled(part: ast.Subscript, stored: dict[str, int]) -> bool:
    """Whether every name in it is bound once at most, so that it means the same wherever it is written."""
    return all(stored.get(name.id, 0) <= 1 for name in walk(part) if isinstance(name, ast.Name))


def _bound(node: ast.expr) -> tuple[float, str] | None:
    """A number from the front, or a share: `9000`, `int(0.8 * n)`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return float(node.value), "#"
    share = _SHARE.fullmatch(ast.unparse(node))
    if share is None:
        return None
    return float(share[1] or share[4]), share[2] or share[3]
