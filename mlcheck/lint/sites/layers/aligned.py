"""Scores for the CTC loss, which are normalised over its frames or its samples and not over the symbols."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import before_methods, last_name
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Call

_AS_IT_IS = ("float", "double", "contiguous", "to", "cuda", "cpu", "requires_grad_")
_BATCHED = ("DataLoader", "pad_sequence", "batch_first")
_STEPS, _DIMS, _SYMBOLS = 8, 3, 2


def over_no_symbols(loss: Call) -> Call | None:
    """The `log_softmax` of what a CTC loss gets as (frames, samples, symbols), if it is over one of the first two."""
    given, turns, context = loss.argument("log_probs", 0), list[list[int]](), loss.context
    node, softmax = given if isinstance(given, ast.expr) else None, None
    for _ in range(_STEPS):
        if node is None or softmax is not None:
            break
        node, context = source(loss.file, before_methods(node, _AS_IT_IS), context)
        call = Call(loss.file, node, context) if isinstance(node, ast.Call) else None
        order = _order(call) if call is not None else None
        if call is not None and last_name(call.node.func) == "log_softmax":
            softmax = call
        node = call.node.func.value if call is not None and isinstance(call.node.func, ast.Attribute) else None
        turns += [order] if order is not None else []
        node = node if order is not None else None
    dim = _dimension(softmax) if softmax is not None else None
    if softmax is None or dim is None:
        return None
    place = dim
    for order in reversed(turns):
        place = order.index(place)
    of_batches = bool(turns or _is_turned(softmax)) and any(True for _ in loss.file.sites.mentioning(_BATCHED))
    return softmax if place != _SYMBOLS and (of_batches or (dim == 0 and not turns)) else None


def _order(call: Call) -> list[int] | None:
    """Which dimension of three stands at each place after `x.transpose(0, 1)` or `x.permute(2, 0, 1)`."""
    given = [call.file.constant(arg, call.context) for arg in call.node.args]
    numbers = [number % _DIMS for number in given if isinstance(number, int) and -_DIMS <= number < _DIMS]
    name = last_name(call.node.func)
    if name == "permute" and sorted(numbers) == list(range(_DIMS)):
        return numbers
    if name == "transpose" and len(numbers) == len(given) == 2:
        order = list(range(_DIMS))
        order[numbers[0]], order[numbers[1]] = order[numbers[1]], order[numbers[0]]
        return order
    return None


def _is_method(softmax: Call) -> bool:
    """`x.log_softmax(2)`, and not `F.log_softmax(x, 2)`."""
    func = softmax.node.func
    return isinstance(func, ast.Attribute) and not isinstance(softmax.file.resolve(func, softmax.context), str)


def _dimension(softmax: Call) -> int | None:
    dim = softmax.constant("dim", 0 if _is_method(softmax) else 1)
    return dim % _DIMS if isinstance(dim, int) and -_DIMS <= dim < _DIMS else None


def _is_turned(softmax: Call) -> bool:
    """Whether it is taken of three dimensions that were put in this order: `x.transpose(0, 1).log_softmax(1)`."""
    func = softmax.node.func
    given = func.value if _is_method(softmax) and isinstance(func, ast.Attribute) else softmax.argument("input", 0)
    node, context = source(softmax.file, given, softmax.context) if isinstance(given, ast.expr) else (None, None)
    return isinstance(node, ast.Call) and context is not None and _order(Call(softmax.file, node, context)) is not None
