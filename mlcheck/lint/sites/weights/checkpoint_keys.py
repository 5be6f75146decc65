"""What is read of a checkpoint by its keys, and whether the whole goes elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from mlcheck.lint.nodes import dotted, is_name, last_name, loads, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import callers, origins, returns
from mlcheck.lint.sites.project import Sites

PRINTS = ("print", "info", "debug", "warning", "write", "log")


def loaded(sites: Sites) -> Iterator[tuple[Call, str, tuple[File, ...]]]:
    """Where a checkpoint gets a name: by `torch.load`, or by a function that returns what that gives.

    The call, the name, and the files in which the checkpoint may be saved.
    """
    for call in sites.calls("torch.load"):
        for name in _one_name(call):
            yield call, name, (call.file,)
        for outer in callers(sites, call.function) if call.function is not None and is_returned(call) else ():
            for name in _one_name(outer):
                yield outer, name, (outer.file, call.file)


def _one_name(call: Call) -> tuple[str, ...]:
    names = call.file.names_given(call.node)
    return names if len(names) == 1 else ()


def is_returned(load: Call) -> bool:
    """Whether the function around gives back what it loads, or nothing."""
    names = load.file.names_given(load.node)
    given = [each for each in returns(load.function) if not isinstance(each, ast.Constant)] if load.function else []
    return bool(given) and all(each is load.node or any(is_name(each, name) for name in names) for each in given)


def way_of(call: Call) -> ast.AST:
    """The function that a checkpoint is loaded in; the branch alone, where that ends by leaving the function."""
    for outer in call.context.outwards():
        if outer.kind == "function":
            break
        branch = getattr(outer.node, outer.arm, []) if isinstance(outer.node, ast.If) else []
        if branch and isinstance(branch[-1], ast.Return | ast.Raise):
            return ast.Module(branch, [])
    return call.function.node if call.function is not None else call.file.module.source.tree


def keys_read(function: ast.AST, name: str) -> list[str]:
    """The keys of `name["key"]` and `name.get("key")`."""
    return list(_keys_in(walk(function), name))


def keys_used(function: ast.AST, name: str) -> list[str]:
    """Those that are read for more than to print them: `print("epoch", saved["epoch"])` continues nothing."""
    nodes = list(walk(function))
    printed = {
        inner for node in nodes if isinstance(node, ast.Call) and last_name(node.func) in PRINTS for inner in walk(node)
    }
    return list(_keys_in((node for node in nodes if node not in printed), name))


def _keys_in(nodes: Iterable[ast.AST], name: str) -> Iterator[str]:
    for node in nodes:
        key = None
        if isinstance(node, ast.Subscript) and is_name(node.value, name):
            key = node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop"):
            owner = node.func.value
            key = node.args[0] if node.args and is_name(owner, name) else None
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value


def saved_keys(save: Call) -> list[str]:
    """The keys of the dictionary that is written."""
    given = save.argument("obj", 0)
    return [
        key
        for origin in (origins(save.file, given, save.context) if given is not None else ())
        for key in _keys_of(origin.node)
    ]


def _keys_of(table: ast.AST | None) -> Iterator[str]:
    """Of `{"model": ...}` and of `dict(model=...)`."""
    if isinstance(table, ast.Dict):
        yield from (key.value for key in table.keys if isinstance(key, ast.Constant) and isinstance(key.value, str))
    elif isinstance(table, ast.Call) and is_name(table.func, "dict"):
        yield from (word.arg for word in table.keywords if word.arg)


def hands_on(function: ast.AST, name: str) -> bool:
    """Whether the checkpoint as a whole goes to somebody else, who may load it: not where it is written again."""
    for node in walk(function):
        if isinstance(node, ast.Call) and dotted(node.func) == "torch.save":
            continue
        given = [*node.args, *(k.value for k in node.keywords)] if isinstance(node, ast.Call) else []
        given = [node.value] if isinstance(node, ast.Return) and node.value is not None else given
        if any(is_name(argument, name) for argument in given):
            return True
    return False


def goes_on(script: ast.AST, name: str) -> bool:
    """Whether a `range(...)` begins at what was read, or the count goes on from it.

    Not where the best weights are loaded to be looked at.
    """
    read = [node for node in walk(script) if isinstance(node, ast.Assign) and loads(node.value, name)]
    starts = {ast.unparse(target) for node in read for target in node.targets}
    ranges = [node for node in walk(script) if isinstance(node, ast.Call) and is_name(node.func, "range")]
    first = [node.args[0] for node in ranges if len(node.args) > 1]
    counted = [node.target for node in walk(script) if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add)]
    return any(loads(node, name) for node in first) or any(ast.unparse(node) in starts for node in (*first, *counted))
