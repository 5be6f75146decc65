"""Files that one rank writes and every rank reads right after, with nothing between that makes them wait."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites.blocks import blocks
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.ranks import is_one_rank, runs_on_every_rank
from mlcheck.lint.sites.training.optimizers import around

_QUICK = frozenset(["print", "info", "debug", "warning", "format", "dict", "str", "len", "join", "device", "exists"])
"""Calls in which no rank waits for another."""


def read_too_early(sites: Sites) -> Iterator[tuple[Call, ast.Call]]:
    """`if rank == 0: torch.save(state, path)`, and below it `torch.load(path)` on all ranks: the call and the save."""
    for load in sites.calls("torch.load"):
        path = load.argument("f", 0)
        if path is None or not isinstance(path, ast.Name | ast.Attribute | ast.Constant):
            continue
        for statement in reversed(_above(around(load), load.node)):
            saved = _saved(load, statement)
            if saved is not None:
                given = saved.args[1] if len(saved.args) > 1 else None
                if given is not None and ast.unparse(given) == ast.unparse(path) and runs_on_every_rank(sites, load):
                    yield load, saved
                break
            if not _is_quick(statement):
                break


def _above(node: ast.AST, call: ast.Call) -> list[ast.stmt]:
    """The statements of the block before the one that the call stands in."""
    for block in blocks(node):
        for index, statement in enumerate(block):
            if call in walk(statement):
                return _above(statement, call) or ([] if any(blocks(statement)) else block[:index])
    return []


def _saved(load: Call, statement: ast.stmt) -> ast.Call | None:
    """The `torch.save` that is all that one rank does in a branch of its own."""
    if not isinstance(statement, ast.If) or statement.orelse or not is_one_rank(statement.test):
        return None
    calls = [node for line in statement.body for node in walk(line) if isinstance(node, ast.Call)]
    saves = [call for call in calls if load.file.called(call, load.context) == "torch.save"]
    others = [call for call in calls if call not in saves and last_name(call.func) not in (*_QUICK, "state_dict")]
    return saves[0] if len(saves) == 1 and not others else None


def _is_quick(statement: ast.stmt) -> bool:
    calls = [node for node in walk(statement) if isinstance(node, ast.Call)]
    return isinstance(statement, ast.Assign | ast.Expr) and all(last_name(call.func) in _QUICK for call in calls)
