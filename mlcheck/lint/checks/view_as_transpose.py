"""view-as-transpose: `view` or `reshape` where the order of the dimensions was to change."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import Call
from mlcheck.lint.sites.data.pictures import before_copies, has_channels_last
from mlcheck.lint.sites.latest import latest, origin, source
from mlcheck.lint.sites.layers.dimensions import (
    before_joining,
    dimension,
    fed_to,
    moves,
    of_linear,
    positions,
    projected,
    sizes_of_other,
    unpacked,
)
from mlcheck.lint.sites.layers.feature_maps import is_joined_around
from mlcheck.lint.sites.layers.heads import size_text, sizes_before_heads
from mlcheck.lint.sites.layers.merging import (
    is_merged_across,
    is_moved_behind,
    is_sequence_as_map,
    is_split_in_other_order,
    is_tokens_as_map,
)
from mlcheck.lint.sites.layers.recurrent import dimension_of_size, outputs
from mlcheck.lint.sites.layers.tokens import is_tokens_as_picture

LOOKS_AT = "reshaping"
_KEEP_ORDER = ("Linear", "Embedding")
WORDS = (".view(", ".reshape(")


def check(facts: Facts) -> Iterator[Finding]:
    seen = facts.sites.seen
    seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning([".view(", ".reshape("]) if facts.sites.uses_torch else ():
        arrays = "torch" not in file.text and "numpy" in file.text  # else a helper that is given tensors
        for call in file.calls("view", "reshape"):
            owner, sizes = _parts(call)
            if owner is None or len(sizes) < 2:
                continue
            seen[LOOKS_AT] += 1
            if arrays and not (isinstance(owner, ast.Name) and _is_permuted(call, owner, [[size] for size in sizes])):
                continue
            if _merges_first(call, owner, sizes):
                what = "the heads stand before the sequence, and are merged as if they stood behind it"
            elif _reorders(call, owner, sizes):
                what = "the sizes of its shape are given in a different order"
            elif is_split_in_other_order(call, sizes):
                what = "two dimensions were merged in one order and are taken apart in the other"
            elif is_merged_across(call, owner, sizes):
                what = "a dimension is moved across the one that stands between"
            elif is_joined_around(call, owner, sizes):
                what = "the dimensions that are put together do not stand beside each other"
            elif is_sequence_as_map(call, owner, sizes) or is_tokens_as_picture(call, owner, sizes):
                what = "its pixels come before its channels"
            elif _of_time_first(call, owner, sizes):
                what = "the layer gives time first, and it is taken for the batch"
            elif has_channels_last(call, owner, sizes):
                what = "the picture has its channels last"
            else:
                continue
            if _is_vector(call, sizes):
                continue
            yield Finding(
                f"`{ast.unparse(call.node.func).rpartition('.')[2]}` does not move data: {what}, "
                "and the elements end up scrambled",
                call.place.location,
                help="use `permute` or `transpose` to change the order of dimensions; reshape afterwards",
            )


def _parts(call: Call) -> tuple[ast.expr | None, list[ast.expr]]:
    """What is reshaped, without calls that keep its shape, and to which sizes."""
    func, sizes = call.node.func, list(call.node.args)
    if not isinstance(func, ast.Attribute) or call.node.keywords:
        return None, []
    if call.file.resolve(func, call.context) in ("torch.reshape", "numpy.reshape") and sizes:
        owner, sizes = sizes[0], sizes[1:]
    else:
        owner = func.value
    if len(sizes) == 1:
        sizes = list(sizes[0].elts) if isinstance(sizes[0], ast.Tuple | ast.List) else sizes_of_other(call, sizes[0])
    return before_joining(call, before_copies(call.file, owner, call.context), sizes)


def _of_time_first(call: Call, owner: ast.expr, sizes: list[ast.expr]) -> bool:
    """`out, _ = self.lstm(x)`, (time, batch, width), as (batch, -1)."""
    made = outputs(call.file, owner, call.context)
    if made is None or made.batch_first is not False:
        return False
    return dimension_of_size(call.file, sizes[0], call.context, made) == 1


def _is_vector(call: Call, sizes: list[ast.expr]) -> bool:
    """`x.reshape(m, n) if n == 1 else x`: one of the dimensions has a single element, whose order is any."""
    around = call.function.nodes if call.function is not None else walk(call.file.module.source.tree)
    single = {f"{ast.unparse(size)} == 1" for size in sizes}
    tests = (node for node in around if isinstance(node, ast.IfExp | ast.If) and ast.unparse(node.test) in single)
    return any(call.node in set(walk(node)) for node in tests)


def _merges_first(call: Call, owner: ast.expr, sizes: list[ast.expr]) -> bool:
    """`(batch, heads, time, size)` as (batch, time, width), with the names that the sizes had before."""
    if len(sizes) != 3:
        return False
    return [size_text(size) for size in sizes[:2]] in sizes_before_heads(call.file, owner, call.context)


def _reorders(call: Call, owner: ast.expr, sizes: list[ast.expr]) -> bool:
    """Whether the sizes of its dimensions come back in another order."""
    groups = [_factors(size) for size in sizes]
    if isinstance(owner, ast.Call):
        fed = fed_to(call, owner, _KEEP_ORDER)
        if fed is not None and (_is_unsorted_of(call, fed, groups) or _is_split_before_first(fed, groups)):
            return True
        return moves(call, of_linear(call, owner, call.context), groups)
    if not isinstance(owner, ast.Name) or _is_padded(call, owner):
        return False
    layered = _fed_before(call, owner)
    if layered is not None and _is_unsorted_of(call, layered, groups):
        return True
    if _is_split_before_first(layered or owner, groups):
        return True
    inline = [dimension(group[0], owner.id) for group in groups if len(group) == 1]
    if _is_unsorted([place for place in inline if place is not None]):
        return True
    if _is_out_of_order(call, owner, sizes):
        return True
    names = unpacked(call, owner)
    if moves(call, names, groups) or moves(call, projected(call, owner), groups):
        return True
    if len(names) < 2 or len(set(names)) != len(names):
        return False
    if is_tokens_as_map(names, sizes):
        return True
    if is_moved_behind(names, groups) and not any("-1" in ast.unparse(size) for size in sizes):
        return not _is_undone(call, names, names[:1] + names[:0:-1])
    return _is_permuted(call, owner, groups)


def _is_permuted(call: Call, owner: ast.Name, groups: list[list[ast.expr]]) -> bool:
    """`x.reshape(n, channels, time)` after `n, time, channels = x.shape`."""
    names = unpacked(call, owner)
    if len(names) < 2 or len(set(names)) != len(names):
        return False
    texts = [[ast.unparse(factor) for factor in group] for group in groups]
    named = [text for group in texts for text in group]
    if texts.count(["-1"]) == 1:
        texts[texts.index(["-1"])] = [name for name in names if name not in named]
    if sorted(text for group in texts for text in group) != sorted(names):
        return False
    order = [text for group in texts for text in sorted(group, key=names.index)]
    return order != names and not _is_undone(call, names, order)


def _fed_before(call: Call, owner: ast.Name) -> ast.Name | None:
    """`x` after `out = self.embedding(x)`, where it is still the same: the sizes of `out` begin with its own."""
    made, context = source(call.file, owner, call.context)
    fed = fed_to(Call(call.file, call.node, context), made, _KEEP_ORDER) if made is not owner else None
    if fed is None:
        return None
    now = latest(call.file, ast.Name(fed.id, ast.Load(), lineno=call.node.lineno, end_lineno=call.node.lineno), context)
    return fed if now is not None and latest(call.file, fed, context) is now else None


def _is_unsorted_of(call: Call, fed: ast.Name, groups: list[list[ast.expr]]) -> bool:
    """Whether the sizes that were asked of what a layer was fed come back in another order."""
    told = [positions(call, fed, group[0]) for group in groups if len(group) == 1]
    return _is_unsorted([places[0] for places in told if len(places) == 1])


def _is_split_before_first(owner: ast.Name, groups: list[list[ast.expr]]) -> bool:
    """`x.view(steps, x.size(0), -1)`: what was the first dimension is cut in pieces that are taken for the first."""
    places = [dimension(group[0], owner.id) if len(group) == 1 else None for group in groups]
    first = places.index(0) if 0 in places else 0
    if len(places) > first + 1 and places[first:] == list(range(len(places) - first)):
        return False  # `x.view(layers, x.size(0), x.size(1))`: there is nothing to cut, and but one layer
    before = [ast.unparse(factor) for group in groups[:first] for factor in group]
    return bool(before) and "-1" not in before and any(text != "1" for text in before)


def _is_unsorted(places: list[int]) -> bool:
    """Whether dimensions, each asked for once, are asked for in another order than theirs."""
    return len(places) > 1 and len(set(places)) == len(places) and places != sorted(places)


def _is_out_of_order(call: Call, owner: ast.Name, sizes: list[ast.expr]) -> bool:
    """`x.view(batch, pixels, channels)`, where each of these was asked of the shape of (batch, channels, h, w)."""
    told = [positions(call, owner, size) for size in sizes]
    order = [place for places in told for place in sorted(places)]
    if not all(told) or len(set(order)) < len(order) or order == sorted(order):
        return False
    texts = [ast.unparse(size) for size in sizes]
    before = sorted(texts, key=lambda text: min(told[texts.index(text)]))
    return before != texts and not _is_undone(call, before, texts)


def _is_undone(call: Call, names: list[str], order: list[str]) -> bool:
    """Whether a part of the result is brought back into the first order: rows were moved against each other so."""
    held = call.file.names_given(call.node)
    upto = next(place for place, (one, two) in enumerate(zip(names, order, strict=True), 1) if one != two)
    for later in call.file.calls("view", "reshape") if held else ():
        if later.function is call.function and later.node.lineno > call.node.lineno:
            owner, sizes = _parts(later)
            if isinstance(owner, ast.Name) and owner.id in held:
                if [ast.unparse(size) for size in sizes[:upto]] == names[:upto]:
                    return True
    return False


def _is_padded(call: Call, owner: ast.Name) -> bool:
    """Padded by one and reshaped, rows move against each other: the skew of relative attention, on purpose."""
    made, _ = origin(call.file, owner, call.context)
    return isinstance(made, ast.Call) and ast.unparse(made.func).rpartition(".")[2] in (
        "pad",
        "cat",
        "concat",
        "concatenate",
    )


def _factors(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return _factors(node.left) + _factors(node.right)
    return [node]
