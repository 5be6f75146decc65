"""Log-probabilities over dimension 0 that are weighed with targets and summed along another dimension."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.first_dimension import MAY_TURN, is_over_first
from mlcheck.lint.sites.layers.softmax_layers import softmax_layer
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.scopes import Context

_LAYERS = ("torch.nn.LogSoftmax",)
_PAIRS = (" @ ", "matmul", "einsum", "mm(", "similarity", *MAY_TURN)


class Summed(NamedTuple):
    """The call that normalises, the sum, and its dimension."""

    softmax: Call
    sum: Call
    dim: int


def summed_along_other(file: File) -> Iterator[Summed]:
    """`(-targets * F.log_softmax(x, dim=0)).sum(dim=1)`: the classes are summed over, and not normalised over."""
    both_ways = {call.function for call in file.calls("log_softmax") if not is_over_first(call)}
    for call in file.calls("sum"):
        if call.function in both_ways or any(word in _around(call) for word in _PAIRS):
            continue  # of pairs, either dimension may be normalised, and the sum of all is one
        of_function = call.file.called(call.node, call.context) == "torch.sum"
        weighed = call.argument("input", 0) if of_function else getattr(call.node.func, "value", None)
        dim = call.constant("dim", 1 if of_function else 0)
        if not isinstance(weighed, ast.expr) or type(dim) is not int or (dim < 1 and not _is_averaged(call)):
            continue
        for factor, context in _factors(file, weighed, call.context):
            softmax = Call(file, factor, context) if isinstance(factor, ast.Call) else None
            if softmax is not None and dim and _is_log_softmax(softmax) and is_over_first(softmax):
                yield Summed(softmax, call, dim)


def _around(call: Call) -> str:
    """The text of the class around, else of the function, else of the file."""
    if call.cls is not None:
        return call.cls.text
    return call.function.text if call.function is not None else call.file.text


def _factors(file: File, node: ast.expr, context: Context) -> Iterator[tuple[ast.expr, Context]]:
    """The factors of a product, through names and signs; nothing where it is none."""
    node, context = source(file, node, context)
    while isinstance(node, ast.UnaryOp):
        node = node.operand
    for side in (node.left, node.right) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) else ():
        made, where = source(file, side.operand if isinstance(side, ast.UnaryOp) else side, context)
        yield made, where
        yield from _factors(file, made, where)


def _is_log_softmax(call: Call) -> bool:
    return last_name(call.node.func) == "log_softmax" or softmax_layer(call, _LAYERS) is not None


def _is_averaged(call: Call) -> bool:
    """Whether the same function takes a mean: of one dimension, the first were the last, and the sum a number."""
    return call.function is not None and "mean(" in call.function.text
