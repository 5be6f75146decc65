"""What the `collate_fn` of a loader made of an item of its batches: followed back from where the batch is used."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import before_methods
from mlcheck.lint.sites.data.loaders import LOADER
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.iteration import item_of_iteration, part_of
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import OPEN, Call, Function
from mlcheck.lint.sites.origins import origins, returns
from mlcheck.lint.sites.scopes import Context

_PAD_SEQUENCE = "torch.nn.utils.rnn.pad_sequence"
_SAME_VALUES = frozenset(["view", "reshape", "flatten", "transpose", "permute", "contiguous", "t"])
_SAME_VALUES |= {"to", "cuda", "cpu", "long", "clone", "detach", "unsqueeze", "squeeze"}
_STEPS = 8


def padded_by_collate(file: File, node: ast.expr, context: Context) -> Call | None:
    """The `pad_sequence` that a value is the result of: in the `collate_fn` of the loader that it was taken of."""
    for _ in range(_STEPS):
        node, context = source(file, before_methods(node, _SAME_VALUES), context)
        if not isinstance(node, ast.Subscript) or not _is_of_slices(node.slice):
            if before_methods(node, _SAME_VALUES) is node:
                break
            continue
        node = node.value
    item = item_of_iteration(node, context)
    loader = _loader(file, item.over, item.loop) if item is not None else None
    collate = loader.argument("collate_fn", 6) if loader is not None else None
    if item is None or loader is None or not isinstance(collate, ast.expr) or collate is OPEN:
        return None
    named = loader.file.resolve(collate, loader.context)
    if not isinstance(named, Function):
        return None
    made = [_item(named, each, item.key) for each in returns(named)]
    return made[0] if len(made) == 1 else None


def _is_of_slices(index: ast.expr) -> bool:
    """`[:, 1:]`: other positions, no other values."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return all(isinstance(part, ast.Slice) for part in parts)


def _loader(file: File, over: ast.expr, context: Context) -> Call | None:
    found = origins(file, over, context)
    only = found[0] if len(found) == 1 and found[0].name == LOADER else None
    return Call(only.file, only.node, only.context) if only is not None and isinstance(only.node, ast.Call) else None


def _item(collate: Function, returned: ast.expr, key: int | str) -> Call | None:
    """The `pad_sequence` that makes an item of what the function returns."""
    made, context = source(collate.file, returned, collate.inner)
    part = part_of(made, key)
    if part is None:
        return None
    part, context = source(collate.file, before_methods(part, _SAME_VALUES), context)
    part = before_methods(part, _SAME_VALUES)
    padded = collate.file.called(part, context) == _PAD_SEQUENCE
    return Call(collate.file, part, context) if padded and isinstance(part, ast.Call) else None
