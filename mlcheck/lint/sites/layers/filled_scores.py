"""Scores of attention that are filled where a mask is true: `scores.masked_fill(mask, -inf)`, written by hand."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import is_none, last_name
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.instances import calls_of_instances
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.mask_meanings import TAKES_PART, true_for
from mlcheck.lint.sites.model import OPEN, Call
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.project import Sites

_INFINITE = pattern(
    r"-(?:float\(['\"]\+?inf|\w+\.inf)|float\(['\"]-inf|finfo\([^)]*\)\.min|-torch\.finfo\([^)]*\)\.max"
)
_SCORES = pattern(r"scores?$|attn|atten|energy|^att$|^dots?$|^sim$|weights?$|logits?$")
_PRODUCT = pattern(r" @ |matmul\(|bmm\(|einsum\(")
_BACKWARD = pattern(r"revers|right_to_left|r2l|bidirect|backward(?!\()|(?:^|_)bw(?:_|$)", re.IGNORECASE | re.MULTILINE)
_LOW = -1000
_NAMES = ("masked_fill", "masked_fill_", "where")


class Hidden(NamedTuple):
    """Where scores are filled, what the mask is true for though that takes part, and where the mask is made."""

    place: Place
    true_for: str
    made: Origin


def hidden_by_fill(sites: Sites) -> Iterator[Hidden]:
    """Where scores that a softmax takes become minus infinity for what takes part, and not for what is left out.

    Only where products make attention of it: moves of a game are masked where a place is taken. What looks at the
    places behind alone may read from the end.
    """
    for file in sites.mentioning(["softmax"]):
        yield from _added(file)
        for call in file.calls(*_NAMES):
            mask, filled, when_true = _mask(call)
            text = call.function.text if call.function is not None else ""
            if mask is None or "softmax" not in text or not _PRODUCT.search(text):
                continue
            if not _SCORES.search(last_name(filled).lower()):
                continue
            yield from _hidden(call.place, call, mask, when_true)


def _hidden(place: Place, near: Call, mask: ast.expr, when_true: bool) -> Iterator[Hidden]:
    text = near.function.text if near.function is not None else ""
    for made in _made(near, mask):
        meant = true_for(made, numbers=True)
        if meant == "before" and (_BACKWARD.search(text) or _BACKWARD.search(made.file.text)):
            continue
        if meant and (meant in TAKES_PART) is when_true:
            yield Hidden(place, meant, made)
            break


def _added(file: File) -> Iterator[Hidden]:
    """`scores + mask * -1e9`: hidden where the mask is 1."""
    near = {call.function: call for call in file.calls("softmax") if call.function is not None}
    for function, call in near.items():
        for node in function.all(ast.BinOp) if _PRODUCT.search(function.text) else ():
            match node:
                case ast.BinOp(op=ast.Add(), right=ast.BinOp(left=left, op=ast.Mult(), right=right)):
                    for mask, low in ((left, right), (right, left)):
                        if _is_low(call, low):
                            yield from _hidden(file.place(node, call.context), call, mask, when_true=True)


def _made(call: Call, mask: ast.expr) -> list[Origin]:
    """Where the mask may come from; what a `forward` is given, from the calls of its module."""
    forward = call.function
    if forward is None or forward.cls is None or forward.name != "forward" or not isinstance(mask, ast.Name):
        return origins(call.file, mask, call.context)
    if mask.id not in forward.parameters:
        return origins(call.file, mask, call.context)
    position = list(forward.parameters).index(mask.id) - 1
    found = []
    for use in calls_of_instances(call.file.sites, forward, forward.cls):
        value = use.argument(mask.id, position)
        if isinstance(value, ast.expr) and value is not OPEN and not is_none(value):
            found += origins(use.file, value, use.context)
    return found


def _mask(call: Call) -> tuple[ast.expr | None, ast.expr | None, bool]:
    """The mask of a call that writes minus infinity, into what, and whether it does so where the mask is true."""
    func = call.node.func
    name = func.attr if isinstance(func, ast.Attribute) else ""
    of_torch = call.file.called(call.node, call.context) == f"torch.{name}"
    given = [*call.node.args, *(word.value for word in call.node.keywords if word.arg in ("mask", "value"))]
    if name == "where" and of_torch and len(given) == 3:
        low = [_is_low(call, arm) for arm in given[1:]]
        return (given[0], given[1 + low.index(False)], low[0]) if low.count(True) == 1 else (None, None, True)
    filled = given[0] if of_torch and given else func.value if isinstance(func, ast.Attribute) else None
    given = given[1:] if of_torch else given
    if name == "where" or len(given) != 2 or not _is_low(call, given[1]):
        return None, None, True
    return given[0], filled, True


def _is_low(call: Call, node: ast.expr) -> bool:
    """Minus infinity, or a number that stands for it."""
    made, context = source(call.file, node, call.context)
    if isinstance(made, ast.Call) and call.file.called(made, context) in ("torch.tensor", "torch.full_like"):
        made = made.args[-1] if made.args else made
    number = call.file.constant(made, context)
    if isinstance(number, int | float) and not isinstance(number, bool):
        return number <= _LOW
    return _INFINITE.search(ast.unparse(made)) is not None
