"""The straight-through estimator: a value goes forward, and the gradient of another goes back."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import is_name, walk
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.project import Sites


def cut_whole(sites: Sites) -> Iterator[tuple[Place, str]]:
    """`(z + (q - z)).detach()`: what is detached comes to `q` alone, so the sum was to carry the gradient of `z`."""
    for file in sites.mentioning([".detach("]):
        for call in file.calls("detach"):
            func = call.node.func
            if isinstance(func, ast.Attribute) and (kept := _cancelled(func.value)):
                yield call.place, kept
            elif isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name):
                if kept := _cancelled(_held(call, func.value)):
                    yield call.place, kept


def _held(call: Call, name: ast.Name) -> ast.expr | None:
    """What the name is given in the same block, in a function that reads it nowhere but here."""
    nodes = call.function.nodes if call.function is not None else []
    made = [node for node in nodes if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name.id]
    reads = [node for node in nodes if is_name(node, name.id) and node is not name]
    before = [node for node in reads if isinstance(node.ctx, ast.Load) and node.lineno < call.node.lineno]
    sums = [node for node in made if node.lineno < call.node.lineno and _cancelled(node.value)]
    if len(sums) != 1 or any(node.lineno > sums[0].lineno for node in before):
        return None
    return sums[0].value


def _cancelled(node: ast.expr | None) -> str:
    """`z` of `z + (q - z)` and of `q - z + z`."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
        return ""
    for kept, other in ((node.left, node.right), (node.right, node.left)):
        if isinstance(other, ast.BinOp) and isinstance(other.op, ast.Sub):
            same = ast.unparse(other.right) == ast.unparse(kept)
            if same and not any(isinstance(part, ast.Constant | ast.Call) for part in walk(kept)):
                return ast.unparse(kept)
    return ""
