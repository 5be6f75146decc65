"""Scores of one positive and many negatives, put side by side: at which place the positive stands."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import before_methods
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

_FUNCTION, _LAYER = "torch.nn.functional.cross_entropy", "torch.nn.CrossEntropyLoss"
_JOINS = ("torch.cat", "torch.concat", "torch.hstack")
_ZEROS = ("torch.zeros", "torch.zeros_like")
_SHAPES = ("unsqueeze", "view", "reshape", "squeeze", "contiguous")
_SCALES = ("div", "mul", "div_", "mul_", "float")
_MOVES = ("long", "to", "cuda", "type", "detach", "clone")
_PAIRS = pattern(r"^(\w)(\w),\1\2->\1$")
_ALL = pattern(r"^(\w)(\w),(?:\2(\w)|(\w)\2)->\1(?:\3|\4)$")


class Misplaced(NamedTuple):
    """The loss, where the scores are put side by side, and the label that it is given."""

    loss: Call
    joined: Place


def misplaced_positives(sites: Sites) -> Iterator[Misplaced]:
    """`cross_entropy(torch.cat([negatives, positive], 1), zeros)`: class 0 is the first negative."""
    for file in sites.mentioning(["cat(", "hstack("]) if sites.uses_torch else ():
        for call in _losses(file):
            scores, where = _scores(call.file, call.node.args[0], call.context)
            parts = _joined(file, scores, where)
            if len(parts) == 2 and _is_of_all(file, parts[0], where) and _is_of_pairs(file, parts[1], where):
                yield Misplaced(call, file.place(scores, where))


def _losses(file: File) -> Iterator[Call]:
    """The class losses that are told that the answer is class 0."""
    for calls in file.walk.calls.values() if "ross" in file.text else ():
        for node, context in calls:
            if len(node.args) == 2 and _is_zero(file, node.args[1], context):
                called = file.called(node, context)
                made = origins(file, node.func, context) if not called else []
                if called == _FUNCTION or (made and all(each.name == _LAYER for each in made)):
                    yield Call(file, node, context)


def _scores(file: File, node: ast.expr, context: Context) -> tuple[ast.expr, Context]:
    """What scores are before a temperature divides them."""
    node, context = source(file, node, context)
    for _ in range(3):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Mult):
            node, context = source(file, node.left, context)
        elif before_methods(node, _SCALES) is not node:
            node, context = source(file, before_methods(node, _SCALES), context)
    return node, context


def _joined(file: File, node: ast.expr, context: Context) -> list[ast.expr]:
    if not isinstance(node, ast.Call) or file.called(node, context) not in _JOINS or not node.args:
        return []
    dim = Call(file, node, context).constant("dim", 1, default=0)
    parts = node.args[0].elts if isinstance(node.args[0], ast.List | ast.Tuple) else []
    return parts if dim in (1, -1) or file.called(node, context) == "torch.hstack" else []


def _is_zero(file: File, node: ast.expr, context: Context) -> bool:
    made, where = source(file, before_methods(node, _MOVES), context)
    made = before_methods(made, _MOVES)
    return isinstance(made, ast.Call) and file.called(made, where) in _ZEROS


def _made(file: File, node: ast.expr, context: Context) -> tuple[ast.expr, Context]:
    for _ in range(3):
        node, context = source(file, before_methods(node, _SHAPES), context)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            node = node.left
    return before_methods(node, _SHAPES), context


def _is_of_pairs(file: File, node: ast.expr, context: Context) -> bool:
    """`(q * k).sum(1)`, `torch.einsum("nc,nc->n", q, k)`, `cosine_similarity(q, k)`: one score a row."""
    made, where = _made(file, node, context)
    match made:
        case ast.Call(func=ast.Attribute(value=ast.BinOp(op=ast.Mult()), attr="sum")):
            return True
        case ast.Call(args=[ast.BinOp(op=ast.Mult()), *_]) if file.called(made, where) == "torch.sum":
            return True
        case ast.Call():
            return _matches(file, made, where, _PAIRS)
    return False


def _is_of_all(file: File, node: ast.expr, context: Context) -> bool:
    """`q @ queue`, `torch.mm(q, queue)`, `torch.einsum("nc,ck->nk", q, queue)`: a score with each of many."""
    made, where = _made(file, node, context)
    match made:
        case ast.BinOp(op=ast.MatMult()):
            return True
        case ast.Call(func=ast.Attribute(attr="mm" | "matmul")):
            return True
        case ast.Call():
            return _matches(file, made, where, _ALL)
    return False


def _matches(file: File, made: ast.Call, context: Context, wanted: re.Pattern[str]) -> bool:
    """Whether it is an `einsum` of such indices."""
    said = file.constant(made.args[0], context) if file.called(made, context) == "torch.einsum" and made.args else ""
    return isinstance(said, str) and wanted.search(said.replace(" ", "")) is not None
