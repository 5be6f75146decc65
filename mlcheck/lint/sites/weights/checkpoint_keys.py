"""What is read of a checkpoint by its keys, and whether the whole goes elsewhere."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import is_name, loads, walk


def keys_read(function: ast.AST, name: str) -> list[str]:
    """The keys of `name["key"]` and `name.get("key")`."""
    found = []
    for node in walk(function):
        key = None
        if isinstance(node, ast.Subscript) and is_name(node.value, name):
            key = node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop"):
            owner = node.func.value
            key = node.args[0] if node.args and is_name(owner, name) else None
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            found.append(key.value)
    return found


def hands_on(function: ast.AST, name: str) -> bool:
    """Whether the checkpoint as a whole goes to somebody else."""
    for node in walk(function):
        given = [*node.args, *(k.value for k in node.keywords)] if isinstance(node, ast.Call) else []
        given = [node.value] if isinstance(node, ast.Return) and node.value is not None else given
        if any(is_name(argument, name) for argument in given):
            return True
    return False


def goes_on(script: ast.AST, name: str) -> bool:
    """Whether a `range(...)` begins at what was read: not where the best weights are loaded to be looked at."""
    read = [node for node in walk(script) if isinstance(node, ast.Assign) and loads(node.value, name)]
    starts = {ast.unparse(target) for node in read for target in node.targets}
    ranges = [node for node in walk(script) if isinstance(node, ast.Call) and is_name(node.func, "range")]
    first = [node.args[0] for node in ranges if len(node.args) > 1]
    return any(loads(node, name) or ast.unparse(node) in starts for node in first)
