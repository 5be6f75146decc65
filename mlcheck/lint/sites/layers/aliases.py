"""Two names of one tensor, of which one is written to, and which are then held against each other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeGuard

from mlcheck.core.finding import Finding
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.straight import blocks_around, rebound_between

_LOSSES = ("loss", "criterion", "mse", "l1", "huber")


def held_against_itself(function: Function) -> Iterator[Finding]:
    """`target = values`, `target[rows, actions] = wanted`, and `mse_loss(values, target)`, which is nought."""
    calls = [node for node in function.nodes if isinstance(node, ast.Call)]
    for line in function.nodes:
        target = line.targets[0] if isinstance(line, ast.Assign) and len(line.targets) == 1 else None
        if not isinstance(line, ast.Assign) or not isinstance(target, ast.Name) or not isinstance(line.value, ast.Name):
            continue
        names = (target.id, line.value.id)
        written = [node for node in function.nodes if _writes(node, names) and node.lineno > line.lineno]
        block = blocks_around(function.node, line)[-1:]
        compared = next((node for node in calls if _compares(node, names)), None)
        if not written or compared is None or names[0] == names[1] or compared.lineno <= written[0].lineno:
            continue
        if any(rebound_between(function.node, line, compared, name) for name in names):
            continue
        if any(any(part is compared for part in walk(statement)) for inner in block for statement in inner):
            yield Finding(
                f"`{names[0]}` and `{names[1]}` are one tensor: what is written into it changes both, and "
                f"line {compared.lineno} compares it with itself",
                function.place(line).location,
                help=f"`{names[0]} = {names[1]}.detach().clone()`",
                related=(function.place(written[0]).location, function.place(compared).location),
            )


def _writes(node: ast.AST, names: tuple[str, str]) -> TypeGuard[ast.Assign]:
    """`target[rows, actions] = ...`; what is written by a word goes into a dictionary."""
    match node:
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name), slice=index)]):
            return name in names and not isinstance(index, ast.Constant | ast.JoinedStr)
    return False


def _compares(node: ast.Call, names: tuple[str, str]) -> bool:
    """A loss of the two."""
    if len(node.args) < 2:
        return False
    called = ast.unparse(node.func).lower()
    given = [arg.id if isinstance(arg, ast.Name) else "" for arg in node.args[:2]]
    return set(given) == set(names) and any(word in called for word in _LOSSES)
