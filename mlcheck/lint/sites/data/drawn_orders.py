"""Random orders that are drawn, and then not followed: the batches are cut from the data as it lies."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.nodes import is_name, reads_of, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.project import Sites

_DRAWN = ("torch.randperm", "numpy.random.permutation")


def not_followed(sites: Sites) -> Iterator[Finding]:
    """`batch = order[i : i + n]`, and `x[i : i + n]` in place of `x[batch]`."""
    for file in sites.mentioning(["randperm(", "permutation("]):
        for drawn in sites.calls(*_DRAWN):
            names = file.names_given(drawn.node) if drawn.file is file and drawn.function is not None else ()
            if drawn.function is None or len(names) != 1 or len(file.bindings(names[0], drawn.context)) != 1:
                continue
            nodes = drawn.function.nodes
            pieces = [node for node in nodes if _is_piece(node, names[0])]
            if len(pieces) != 1 or len(reads_of(nodes, names[0])) != 1:
                continue
            taken = _taken(drawn.function.node, pieces[0])
            if taken is not None and _trains(file, drawn):
                yield Finding(
                    "A random order is drawn and not followed: the batches are cut from the data as it lies",
                    file.place(taken, drawn.context).location,
                    help="index with the piece of the order that was cut for the batch",
                    related=(drawn.place.location,),
                )


def _is_piece(node: ast.AST, order: str) -> bool:
    """`batch = order[i : i + n]`."""
    match node:
        case ast.Assign(targets=[ast.Name()], value=ast.Subscript(value=ast.Name(id=name), slice=ast.Slice())):
            return name == order
    return False


def _taken(function: ast.AST, piece: ast.AST) -> ast.Subscript | None:
    """What is cut by the same slice, where nothing but `len` is told the piece."""
    if not isinstance(piece, ast.Assign) or not isinstance(piece.value, ast.Subscript):
        return None
    target, cut = piece.targets[0], ast.unparse(piece.value.slice)
    assert isinstance(target, ast.Name)
    nodes = walk(function)
    counted = {
        id(part) for node in nodes if isinstance(node, ast.Call) and is_name(node.func, "len") for part in node.args
    }
    for node in nodes:
        if is_name(node, target.id) and node is not target and id(node) not in counted:
            return None
    others = (node for node in nodes if isinstance(node, ast.Subscript) and node is not piece.value)
    return next((node for node in others if ast.unparse(node.slice) == cut), None)


def _trains(file: File, drawn: Call) -> bool:
    return any(call.function is drawn.function for call in file.calls("backward"))
