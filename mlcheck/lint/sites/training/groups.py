"""Groups of parameters that are filled for an optimizer and never handed to it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import is_name, walk
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.training.optimizers import optimizers


def forgotten_groups(sites: Sites) -> Iterator[tuple[Place, str, Place]]:
    """`group = {"lr": 1e-2}`, filled like the groups above it; those were appended to what the optimizer is given.

    The group, its name, and where the optimizer is made.
    """
    for made in sites.once(optimizers):
        given = made.argument("params", 0)
        if made.function is None or not isinstance(given, ast.Name):
            continue
        added = [node for node in made.function.nodes if isinstance(node, ast.Call) and _adds(node, given.id)]
        names = {node.args[0].id for node in added if isinstance(node.args[0], ast.Name)}
        for name in sorted(names):
            last = max(node.lineno for node in added if isinstance(node.args[0], ast.Name) and node.args[0].id == name)
            group = _bound_after(made.function, name, last, made.node.lineno)
            if group is not None and _is_only_filled(made.function, name, group.lineno):
                yield made.file.place(group, made.context), name, made.place


def is_handed_on(around: ast.AST, name: str, group: ast.Dict) -> bool:
    """Whether anything beneath takes the group itself: to put parameters into it is not to use it."""
    filled = {
        id(node.func.value.value)
        for node in walk(around)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("append", "extend")
        and isinstance(node.func.value, ast.Subscript)
    }
    return any(
        is_name(node, name) and isinstance(node.ctx, ast.Load) and node.lineno > group.lineno and id(node) not in filled
        for node in walk(around)
    )


def _adds(node: ast.Call, groups: str) -> bool:
    """`groups.append(group)`."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="append"), args=[_]):
            return owner == groups
    return False


def _bound_after(function: Function, name: str, first: int, last: int) -> ast.Assign | None:
    """The dictionary that the name is given to between two lines of the function's own block."""
    for line in function.node.body:
        match line:
            case ast.Assign(targets=[ast.Name(id=bound)], value=ast.Dict()) if bound == name:
                if first < line.lineno < last:
                    return line
    return None


def _is_only_filled(function: Function, name: str, first: int) -> bool:
    """Whether nothing is done with the group from there on but to fill it with parameters: `group["params"]...`."""
    later = [node for node in function.nodes if is_name(node, name) and node.lineno > first]
    filled = {
        node.value
        for node in function.nodes
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value == "params"
    }
    return bool(later) and all(node in filled for node in later)
