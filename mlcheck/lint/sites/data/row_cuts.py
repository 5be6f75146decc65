"""Where rows are cut at a bound, wherever they come from: `train, test = rows[:n], rows[n:]`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import assigned, before_methods, last_name, own_nodes
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import latest
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context
from mlcheck.lint.values import split_of_name

_SAME = ("copy", "to_numpy", "reset_index", "astype", "values")
_HEAD = pattern(r"train\w*[^\n=]*=[^\n=]*\[ ?:")


class RowCut(NamedTuple):
    """The slice that is held out, whose first row is the one behind the last that is trained on."""

    file: File
    context: Context
    held: ast.Subscript
    rows: ast.Name


def cuts_of_rows(sites: Sites) -> Iterator[RowCut]:
    for file in sites.mentioning(["train"]):
        for scope, context in file.scopes() if _HEAD.search(file.text) else ():
            yield from _cuts(file, scope, context)


def _cuts(file: File, scope: ast.AST, context: Context) -> Iterator[RowCut]:
    parts = [part for node in own_nodes(scope) if isinstance(node, ast.Assign) for part in _parts(node)]
    heads = [(rows, bounds.upper) for split, _, rows, bounds in parts if split == "train" and bounds.lower is None]
    for split, held, rows, bounds in parts if heads else ():
        begin = ast.unparse(bounds.lower) if split in ("val", "test") and bounds.lower is not None else ""
        for head, end in heads if begin else ():
            same = head.id == rows.id and end is not None and ast.unparse(end) == begin
            if same and latest(file, head, context) is latest(file, rows, context):
                yield RowCut(file, context, held, rows)
                break


def _parts(node: ast.Assign) -> Iterator[tuple[str, ast.Subscript, ast.Name, ast.Slice]]:
    """Which split the name is for that gets a slice, the slice, the rows it is taken of, and its bounds."""
    for target, value in assigned(node):
        part = before_methods(value, _SAME)
        part = part.value if isinstance(part, ast.Attribute) and part.attr == "values" else part
        match part:
            case (
                ast.Subscript(value=ast.Name() as rows, slice=ast.Slice() as bounds)
                | ast.Subscript(value=ast.Attribute(value=ast.Name() as rows, attr="iloc"), slice=ast.Slice() as bounds)
            ):
                yield split_of_name(last_name(target)), part, rows, bounds
