"""What the `collate_fn` of a loader made of an item of its batches: followed back from where the batch is used."""

from __future__ import annotations

import ast
from typing import NamedTuple

from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import before_methods
from mlcheck.lint.sites.data.filled_rows import filled_rows
from mlcheck.lint.sites.data.loaders import LOADER
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.iteration import item_of_iteration, part_of
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import OPEN, Call, Function
from mlcheck.lint.sites.origins import Origin, origins, returns
from mlcheck.lint.sites.running import run_by
from mlcheck.lint.sites.scopes import Context

_PAD_SEQUENCE = "torch.nn.utils.rnn.pad_sequence"
_SAME_VALUES = frozenset(["view", "reshape", "flatten", "transpose", "permute", "contiguous", "t"])
_SAME_VALUES |= {"to", "cuda", "cpu", "long", "clone", "detach", "unsqueeze", "squeeze"}
_WRAPS = ("torch.from_numpy", "torch.as_tensor", "torch.tensor", "torch.LongTensor", "torch.FloatTensor")
_STEPS = 8


class Padding(NamedTuple):
    """Where a batch is padded, and with which number (UNKNOWN where that is not told)."""

    place: Place
    value: object


def padded_by_collate(file: File, node: ast.expr, context: Context) -> Padding | None:
    """The padding of what a value is a view of: made in the `collate_fn` of the loader that it was taken of."""
    found = collated(file, node, context)
    if found is None or not isinstance(found.node, ast.Call):
        return None
    call = Call(found.file, found.node, found.context)
    if found.name == _PAD_SEQUENCE:
        return Padding(call.place, call.constant("padding_value", 2, default=0))
    rows = filled_rows(call)
    return Padding(call.place, rows.begun) if rows is not None and rows.starts else None


def collated(file: File, node: ast.expr, context: Context) -> Origin | None:
    """What the `collate_fn` of a loader makes of what a value is, or is a view of."""
    node, context = _seen_through(file, node, context)
    item = item_of_iteration(node, context)
    loader = _loader(file, item.over, item.loop) if item is not None else None
    collate = loader.argument("collate_fn", 6) if loader is not None else None
    if item is None or loader is None or not isinstance(collate, ast.expr) or collate is OPEN:
        return None
    run = run_by(loader.file, collate, loader.context)
    made = [_item(run.function, each, item.key) for each in returns(run.function)] if run is not None else []
    return made[0] if len(made) == 1 else None


def _seen_through(file: File, node: ast.expr, context: Context) -> tuple[ast.expr, Context]:
    """What a value is a view of: behind names, methods that keep the values, and slices."""
    for _ in range(_STEPS):
        node, context = source(file, before_methods(node, _SAME_VALUES), context)
        if isinstance(node, ast.Subscript) and _is_of_slices(node.slice):
            node = node.value
        elif before_methods(node, _SAME_VALUES) is node:
            break
    return node, context


def _is_of_slices(index: ast.expr) -> bool:
    """`[:, 1:]`: other positions, no other values."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return all(isinstance(part, ast.Slice) for part in parts)


def _loader(file: File, over: ast.expr, context: Context) -> Call | None:
    found = origins(file, over, context)
    only = found[0] if len(found) == 1 and found[0].name == LOADER else None
    return Call(only.file, only.node, only.context) if only is not None and isinstance(only.node, ast.Call) else None


def _item(collate: Function, returned: ast.expr, key: int | str) -> Origin | None:
    """What makes an item of what the function returns."""
    made, context = source(collate.file, returned, collate.inner)
    part = part_of(made, key)
    if part is None:
        return None
    for _ in range(_STEPS):
        part, context = _seen_through(collate.file, part, context)
        if not isinstance(part, ast.Call) or not part.args or collate.file.called(part, context) not in _WRAPS:
            break
        part = part.args[0]
    return Origin(collate.file, part, context)
