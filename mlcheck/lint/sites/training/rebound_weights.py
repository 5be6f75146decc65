"""Loops over the weights of a model that give each a new value, and only a variable of the loop takes it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.lint.nodes import is_name, loads, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

_OF_WEIGHTS = ("add", "sub", "mul", "div", "lerp", "addcmul", "addcdiv", "clamp", "clip", "copysign")


def rebound_weights(sites: Sites) -> Iterator[tuple[File, ast.Assign, Context]]:
    """The lines that do so."""
    for file in sites.mentioning([".parameters()", "state_dict()", "named_parameters()"]):
        for loop, context in file.walk.loops:
            for line in _given_to_a_name(loop) if isinstance(loop, ast.For) else ():
                yield file, line, context


def _given_to_a_name(loop: ast.For) -> Iterator[ast.Assign]:
    """`for p in model.parameters(): p = p - lr * p.grad`, where nothing reads `p` after it."""
    if re.search(r"\.(?:named_)?parameters\(\)|state_dict\(\)\.(?:items|values)\(\)", ast.unparse(loop.iter)) is None:
        return
    of_two = isinstance(loop.iter, ast.Call) and all(ast.unparse(a).endswith("parameters()") for a in loop.iter.args)
    names = {node.id for node in walk(loop.target) if isinstance(node, ast.Name)}
    for line in walk(loop):
        target = line.targets[0] if isinstance(line, ast.Assign) else None
        if not isinstance(line, ast.Assign) or not isinstance(target, ast.Name) or target.id not in names:
            continue
        if not loads(line.value, target.id) or not (isinstance(line.value, ast.BinOp) or _makes_new(line.value)):
            continue
        if isinstance(loop.iter, ast.Call) and loop.iter.args and of_two:
            continue  # the average of two models is spoken of by itself
        if not any(is_name(n, target.id) and _reads(n, line) for n in walk(loop)):
            yield line


def _makes_new(node: ast.expr) -> bool:
    """`torch.clamp(p, -1, 1)`, `p.data.mul(0.9)`, `torch.empty_like(p).uniform_(-1, 1)`; not `p.mul_(0.9)`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if ast.unparse(node.func.value) == "torch":
            return node.func.attr in _OF_WEIGHTS or node.func.attr.endswith("_like")
        if node.func.attr in _OF_WEIGHTS:
            return True
        node = node.func.value
    return False


def _reads(node: ast.Name, line: ast.Assign) -> bool:
    return isinstance(node.ctx, ast.Load) and node.lineno > (line.end_lineno or line.lineno)
