"""What reads weights that were kept, when the model may have been trained on."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_name, stores, stores_of, walk
from mlcheck.lint.training import Snapshot


def read_later(facts: Facts, snapshot: Snapshot) -> bool:
    """Whether what the snapshot was bound to is read when the model may have been trained on.

    A variable: after the loop that binds it, or in another branch of that loop. An attribute: anywhere but in the
    branch or function that binds it, if its name says that it is kept for good.
    """
    target, nodes = snapshot.target, walk(snapshot.within)
    around = [node for node in nodes if isinstance(node, _BLOCKS) and target in set(walk(node))]
    branches = (node for node in reversed(around) if isinstance(node, ast.If) and not _binds_either_way(node, target))
    branch = next(branches, snapshot.within)
    if snapshot.by_helper:
        lines = (node for node in nodes if isinstance(node, ast.Assign))
        branch = next((line for line in lines if target in set(walk(line))), branch)
    read: set[ast.AST] = set()
    if isinstance(target, ast.Name):
        loops = [node for node in around if not isinstance(node, ast.If)]
        read = _met_again(target, nodes, loops, around) if loops else set()
    else:
        for file in facts.sites.files.values():
            read |= set(walk(file.module.source.tree)) if f".{target.attr}" in file.text else set()
    read -= set(walk(branch))
    others = {node.value for node in read if isinstance(node, ast.Subscript) and _is_other(node, snapshot.item)}
    return any(_reads(node, target) and node not in others for node in read)


def _binds_either_way(node: ast.If, target: ast.Name | ast.Attribute) -> bool:
    """`if parallel: kept = net.module.state_dict()`, `else: kept = net.state_dict()`: beneath, it is always anew."""
    if not isinstance(target, ast.Name):
        return False
    return all(any(stores(line, target.id) for line in block) for block in (node.body, node.orelse))


def _met_again(
    target: ast.Name, nodes: Sequence[ast.AST], loops: Sequence[ast.AST], around: Sequence[ast.AST]
) -> set[ast.AST]:
    """What runs after the branch that binds a variable in the innermost loop, until it is bound anew."""
    inside, end = set(walk(loops[-1])), getattr(loops[-1], "end_lineno", 0)
    binds = stores_of(nodes, target.id)
    anew = min((bind.lineno for bind in binds if bind.lineno > end), default=None)
    met = {n for n in nodes if end < getattr(n, "lineno", 0) <= (anew or n.lineno)}  # type: ignore[attr-defined]
    met |= set(walk(loops[0])) - inside
    for other in inside:
        if isinstance(other, ast.If) and other not in around and set(walk(other)).isdisjoint(binds):
            met |= set(walk(other))
    return met - _bound_otherwise(target, nodes)


def _bound_otherwise(target: ast.Name, nodes: Sequence[ast.AST]) -> set[ast.AST]:
    """What stands in one block below another binding of the variable, and not around this one."""
    found: set[ast.AST] = set()
    for block in (getattr(node, "body", None) for node in nodes):
        for place, line in enumerate(block if isinstance(block, list) else []):
            if isinstance(line, ast.Assign) and stores(line, target.id):
                below = {node for later in block[place + 1 :] for node in walk(later)}  # type: ignore[index]
                found |= below if target not in below else set()
    return found


_BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While)


def _is_other(node: ast.Subscript, item: str) -> bool:
    """`best["epoch"]`, where the weights are in `best["weights"]`."""
    return bool(item) and isinstance(node.slice, ast.Constant) and node.slice.value != item


def _reads(node: ast.AST, target: ast.Name | ast.Attribute) -> bool:
    if isinstance(target, ast.Name):
        return is_name(node, target.id) and isinstance(node.ctx, ast.Load)
    return isinstance(node, ast.Attribute) and node.attr == target.attr and isinstance(node.ctx, ast.Load)
