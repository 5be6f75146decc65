"""Slices that are given a name, and written over while the name is still to be read: `last = x[:, -1:]`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from mlcheck.lint.nodes import loads
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.straight import read_after, rebound_between


class Kept(NamedTuple):
    """`last = x[:, -1:]`, and `x[:, :] = x - last`, which changes it; `read` is where it is read as what it was."""

    name: str
    view: ast.Assign
    write: ast.Assign | ast.AugAssign
    read: ast.Name


def kept_slices(function: Function) -> Iterator[Kept]:
    """Slices of several dimensions, as arrays have, that a write computed with themselves covers."""
    for line in function.all(ast.Assign):
        match line.targets:
            case [ast.Name(id=name)] if (part := _sliced(line.value)) is not None:
                pass
            case _:
                continue
        writes: list[ast.Assign | ast.AugAssign] = [*function.all(ast.Assign), *function.all(ast.AugAssign)]
        for write in writes:
            target = _target(write)
            if target is None or write.lineno <= line.lineno:
                continue
            if ast.unparse(target.value) != ast.unparse(part.value) or not _covers(target.slice, part.slice):
                continue
            base = ast.unparse(part.value)
            both = loads(write.value, name) and (isinstance(write, ast.AugAssign) or loads(write.value, base))
            if not both or any(rebound_between(function.node, line, write, bound) for bound in (name, base)):
                continue
            if (read := read_after(function.node, write, name)) is not None:
                yield Kept(name, line, write, read)


def _sliced(value: ast.expr) -> ast.Subscript | None:
    """`x[:, -1:]` of `x[:, -1:].detach()`: a view into x, by plain slices and numbers."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "detach":
        value = value.func.value
    if not isinstance(value, ast.Subscript) or not isinstance(value.value, ast.Name):
        return None
    parts = value.slice.elts if isinstance(value.slice, ast.Tuple) else []
    plain = all(isinstance(part, ast.Slice | ast.Constant | ast.UnaryOp) for part in parts)
    return value if plain and any(isinstance(part, ast.Slice) for part in parts) else None


def _target(node: ast.Assign | ast.AugAssign) -> ast.Subscript | None:
    """What a single assignment writes into."""
    targets = [node.target] if isinstance(node, ast.AugAssign) else node.targets
    target = targets[0] if len(targets) == 1 else None
    return target if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) else None


def _covers(written: ast.expr, kept: ast.expr) -> bool:
    """Whether the write reaches all that was kept: in each dimension it takes everything, or the same."""
    wide = written.elts if isinstance(written, ast.Tuple) else [written]
    parts = kept.elts if isinstance(kept, ast.Tuple) else [kept]
    everything = ast.unparse(ast.Slice())
    return all(
        ast.unparse(one) in (everything, ast.unparse(other)) for one, other in zip(wide, parts, strict=False)
    ) and len(wide) <= len(parts)
