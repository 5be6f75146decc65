"""Dimensions that are merged into one, and taken apart in another order: `(b, t)` as `b * t`, and that as `(t, b)`."""

from __future__ import annotations

import ast

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Call

_LAYERS = 4
_TURNS = (["1", "2"], ["2", "1"], ["-1", "-2"], ["-2", "-1"])
_MOVES = pattern(r"transpose|permute|movedim|moveaxis|swapaxes|rearrange|einsum|\.m?T\b|\.t\(")


def is_split_in_other_order(call: Call, sizes: list[ast.expr]) -> bool:
    """`x.view(t, b, ...)` where the function made `b * t` of the two, in that order alone, and moves nothing."""
    if call.function is None or len(sizes) < 2 or not all(isinstance(size, ast.Name) for size in sizes[:2]):
        return False
    first, second = (ast.unparse(size) for size in sizes[:2])
    if first == second or _MOVES.search(_text_before(call)):
        return False
    merged = {ast.unparse(size) for other in _reshapes(call) for size in _sizes(other)[:1]}
    ordered = f"{second} * {first}" in merged and f"{first} * {second}" not in merged
    return ordered and _leads(call, second, first)


def _text_before(call: Call) -> str:
    """The text of the function above a call, and of what is called: what is done to its result comes after it."""
    assert call.function is not None
    lines = call.function.text.splitlines()[: call.node.lineno - call.function.node.lineno]
    return "\n".join([*lines, ast.unparse(call.node.func)])


def _leads(call: Call, first: str, second: str) -> bool:
    """Whether these are the first two sizes of one tensor, `b, t, c = x.shape`, and nothing else ever."""
    assert call.function is not None
    names = (node for node in call.function.nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    bound = sorted(name.id for name in names if name.id in (first, second))
    whole = [
        [ast.unparse(name) for name in node.targets[0].elts[:2]]
        for node in call.function.node.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple) and _is_shape(node.value)
    ]
    return bound == sorted([first, second]) and whole.count([first, second]) == 1


def _is_shape(node: ast.expr) -> bool:
    return ast.unparse(node).endswith((".shape", ".size()"))


def _reshapes(call: Call) -> list[ast.Call]:
    """Other calls of `view` and `reshape` above, in the same function."""
    assert call.function is not None
    return [
        node
        for node in call.function.nodes
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("view", "reshape", "flatten")
        and node.lineno < call.node.lineno
    ]


def _sizes(call: ast.Call) -> list[ast.expr]:
    return list(call.args[0].elts) if len(call.args) == 1 and isinstance(call.args[0], ast.Tuple) else call.args


def is_moved_behind(names: list[str], groups: list[list[ast.expr]]) -> bool:
    """Whether a dimension comes behind parts of a later one: `(b, c, h, w)` as `(b, h // p * (w // p), c * p)`."""
    used = [{part.id for factor in group for part in walk(factor) if isinstance(part, ast.Name)} for group in groups]
    places = [next((place for place, found in enumerate(used) if name in found), None) for name in names]
    known = [place for place in places if place is not None]
    return len(names) > 2 and len(known) == len(set(names)) and known != sorted(known)


def is_merged_across(call: Call, owner: ast.expr, sizes: list[ast.expr]) -> bool:
    """`x.view(b, h // w, w, v // w, w, c).view(-1, w, w, c)`: the second `w` from behind is not where it is taken."""
    made, context = source(call.file, owner, call.context)
    before = made.args if isinstance(made, ast.Call) and last_name(made.func) in ("view", "reshape") else []
    if len(before) < 4 or any(isinstance(size, ast.Starred) for size in [*before, *sizes]):
        return False
    names = {node.id for size in [*before, *sizes] for node in walk(size) if isinstance(node, ast.Name)}
    if any(len(call.file.bindings(name, context)) != 1 for name in names if name != last_name(owner)):
        return False
    left = [ast.unparse(size) for size in before]
    for size in [ast.unparse(size) for size in sizes[:0:-1]]:
        if left and left[-1] == size:
            left.pop()
        else:
            return size.isidentifier() and size in left and size != "1"
    return False


def is_sequence_as_map(call: Call, owner: ast.expr, sizes: list[ast.expr]) -> bool:
    """`t = x.flatten(2).transpose(1, 2)`, layers that keep (batch, pixels, channels), and `t.view(b, c, h, w)`."""
    names = [ast.unparse(size) for size in sizes]
    if call.function is None or len(set(names)) != 4 or not all(isinstance(size, ast.Name) for size in sizes):
        return False
    node, context = source(call.file, owner, call.context)
    for _ in range(_LAYERS):
        if not (isinstance(node, ast.Call) and own_attribute(node.func, call.function) and len(node.args) == 1):
            break
        node, context = source(call.file, node.args[0], context)
    match node:
        case ast.Call(
            func=ast.Attribute(
                value=ast.Call(func=ast.Attribute(value=picture, attr="flatten"), args=[ast.Constant(value=2)]),
                attr="transpose" | "permute" as moves,
            ),
            args=order,
        ):
            turned = [ast.unparse(each) for each in order] in ([["0", "2", "1"]] if moves == "permute" else _TURNS)
            return turned and _leads_all(call, ast.unparse(picture), names)
    return False


def is_tokens_as_map(names: list[str], sizes: list[ast.expr]) -> bool:
    """`b, n, c = x.shape`, and `x.view(b, c, h, w)`: the channels of each token, where its place should be."""
    texts = [ast.unparse(size) for size in sizes]
    if len(names) != 3 or len(texts) != 4 or texts[:2] != [names[0], names[2]]:
        return False
    return all(isinstance(size, ast.Name | ast.Attribute) for size in sizes) and not set(texts[2:]) & set(names)


def _leads_all(call: Call, picture: str, names: list[str]) -> bool:
    """Whether `b, c, h, w = x.shape` tells all four sizes, and nothing else does."""
    assert call.function is not None
    stored = [node.id for node in call.function.nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    if any(stored.count(name) != 1 for name in names):
        return False
    return any(
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Tuple)
        and [ast.unparse(name) for name in node.targets[0].elts][:2] == names[:2]
        and {ast.unparse(name) for name in node.targets[0].elts} == set(names)
        and ast.unparse(node.value) in (f"{picture}.shape", f"{picture}.size()")
        for node in call.function.nodes
    )
