"""Highest scores that are compared with labels, where the class that has the score was meant."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import before_methods, last_name
from mlcheck.lint.sites.evaluation.hits import MOVES, Counted, hits
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import Origin, sole
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

_SQUASHED = ("softmax", "log_softmax", "sigmoid", "exp")
_SHAPING = ("squeeze", "view", "flatten", "to", "cuda", "clone", *_SQUASHED, *MOVES)
_PARTS = ("data", "logits")
_DEPTH = 6


class Highest(NamedTuple):
    """The call of the model, the one that picks the highest score, and the count of those that are equal to labels."""

    model: ast.AST
    picked: Call
    counted: Call


def highest_for_class(sites: Sites, calls: Collection[ast.AST]) -> Iterator[Highest]:
    """`best, _ = model(x).max(1)`, and `(best == labels).sum()`. `calls` are known to be of modules."""
    for file in sites.mentioning(["max(", "topk("]):
        for counted in hits(file):
            for side, other in ((counted.left, counted.right), (counted.right, counted.left)):
                found = sole(file, before_methods(side, _SHAPING), counted.call.context)
                picked = _picked(found) if found is not None else None
                model = _model(picked, calls) if picked is not None else None
                if picked is not None and model is not None and _is_data(counted, other):
                    yield Highest(model, picked, counted.call)


def _picked(found: Origin) -> Call | None:
    """The call of `x.max(1)` where its first result is taken: unpacked, as `[0]` or as `.values`."""
    node, first = before_methods(found.node, _SHAPING), found.item == 0
    match node:
        case ast.Attribute(value=ast.Call() as node, attr="values"):
            first = True
        case ast.Subscript(value=ast.Call() as node, slice=ast.Constant(value=0)):
            first = True
    if not first or not isinstance(node, ast.Call) or last_name(node.func) not in ("max", "topk"):
        return None
    call = Call(found.file, node, found.context)
    return call if len(node.args) + len(node.keywords) > (1 if _is_function(call) else 0) else None


def _is_function(call: Call) -> bool:
    return call.file.called(call.node, call.context) in ("torch.max", "torch.topk")


def _model(picked: Call, calls: Collection[ast.AST]) -> ast.AST | None:
    """The call of the module that returned the scores, squashed or not."""
    func, file = picked.node.func, picked.file
    given = picked.node.args[:1] if _is_function(picked) else [func.value] if isinstance(func, ast.Attribute) else []
    return next((made for node in given if (made := _made(file, node, picked.context)) in calls), None)


def _made(file: File, node: ast.expr, context: Context) -> ast.expr:
    for _ in range(_DEPTH):
        node, context = source(file, before_methods(node, _SHAPING), context)
        if isinstance(node, ast.Attribute) and node.attr in _PARTS:
            node = node.value
        elif isinstance(node, ast.Call) and node.args and file.called(node, context).rpartition(".")[2] in _SQUASHED:
            node = node.args[0]
        elif isinstance(node, ast.Name) and (handed := sole(file, node, context)) is not None:
            file, node, context = handed.file, handed.node, handed.context
    return node


def _is_data(counted: Counted, node: ast.expr) -> bool:
    """Whether it is what a loop or a caller brings, as it is."""
    file, context = counted.call.file, counted.call.context
    for _ in range(_DEPTH):
        made, where = source(file, before_methods(node, ("view_as", "type_as", *_SHAPING)), context)
        if made is node:
            break
        node, context = made, where
    kept = node.value if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) else node
    bound = file.bindings(kept.id, context) if isinstance(kept, ast.Name) else []
    kinds = ("loop", "param", "item", "value")
    return bool(bound) and all(each.kind in kinds or isinstance(each.node, ast.For) for each in bound)
