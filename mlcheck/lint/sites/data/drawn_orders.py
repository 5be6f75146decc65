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
            names = file.names_given(drawn.node) if drawn.file is file else ()
            if len(names) != 1 or len(file.bindings(names[0], drawn.context)) != 1:
                continue
            nodes = drawn.function.nodes if drawn.function is not None else walk(file.module.source.tree)
            cut = None if reads_of(nodes, names[0]) else _cut_in_order(nodes, drawn)
            if cut is not None and _trains(file, drawn):
                yield _told(file, cut, drawn)
                continue
            pieces = [node for node in nodes if _is_piece(node, names[0])]
            if len(pieces) != 1 or len(reads_of(nodes, names[0])) != 1:
                continue
            taken = _taken(nodes, pieces[0])
            if taken is not None and _trains(file, drawn):
                yield _told(file, taken, drawn)


def _told(file: File, taken: ast.Subscript, drawn: Call) -> Finding:
    return Finding(
        "A random order is drawn and not followed: the batches are cut from the data as it lies",
        file.place(taken, drawn.context).location,
        help="index with the piece of the order that was cut for the batch",
        related=(drawn.place.location,),
    )


def _cut_in_order(nodes: list[ast.AST], drawn: Call) -> ast.Subscript | None:
    """`x[start : start + size]` in a loop below that runs over `range(...)`, by its own variable."""
    for loop in nodes:
        name = loop.target.id if isinstance(loop, ast.For) and isinstance(loop.target, ast.Name) else ""
        if (
            isinstance(loop, ast.For)
            and name
            and loop.lineno > drawn.node.lineno
            and "range(" in ast.unparse(loop.iter)
        ):
            for node in walk(loop):
                match node:
                    case ast.Subscript(slice=ast.Slice(lower=ast.Name(id=first), upper=ast.BinOp())) if first == name:
                        return node
    return None


def _is_piece(node: ast.AST, order: str) -> bool:
    """`batch = order[i : i + n]`."""
    match node:
        case ast.Assign(targets=[ast.Name()], value=ast.Subscript(value=ast.Name(id=name), slice=ast.Slice())):
            return name == order
    return False


def _taken(nodes: list[ast.AST], piece: ast.AST) -> ast.Subscript | None:
    """What is cut by the same slice, where nothing but `len` is told the piece."""
    if not isinstance(piece, ast.Assign) or not isinstance(piece.value, ast.Subscript):
        return None
    target, cut = piece.targets[0], ast.unparse(piece.value.slice)
    assert isinstance(target, ast.Name)
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
