"""Attention written with `einsum`: over which letter its weights add up to one, and over which they are summed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.scopes import Context

_KEPT = ("masked_fill", "masked_fill_", "float", "div", "mul", "clamp", "contiguous", "to", "type_as")
_STEPS = 8


def normalised_over_kept(file: File) -> Iterator[tuple[Call, Call]]:
    """`softmax(einsum("bqd,bkd->bqk", q, k), dim=1)` in `einsum("bqk,bkd->bqd", weights, v)`, and that product."""
    for product in file.calls("einsum"):
        for letters, others, operand in _operands(product):
            made, context = source(file, operand, product.context)
            if not isinstance(made, ast.Call) or last_name(made.func) != "softmax":
                continue
            softmax = Call(file, made, context)
            of_library = isinstance(file.resolve(made.func, context), str)
            dim = softmax.constant("dim", int(of_library))
            scores = softmax.argument("input", 0) if of_library else softmax.owner
            if isinstance(dim, bool) or not isinstance(dim, int) or not -len(letters) <= dim < len(letters):
                continue
            kept = letters[dim] in others[-1]
            summed = any(letter not in others[-1] and letter in "".join(others[:-1]) for letter in letters)
            if kept and summed and isinstance(scores, ast.expr) and _is_product(file, scores, context):
                yield softmax, product


def _operands(product: Call) -> Iterator[tuple[str, list[str], ast.expr]]:
    """The letters of each operand, those of the others and of the result, and the operand."""
    written = product.constant("equation", 0)
    if not isinstance(written, str) or "." in written or written.count("->") != 1:
        return
    read, result = written.replace(" ", "").split("->")
    given = product.node.args[1:]
    if len(given) == 1 and isinstance(given[0], ast.List | ast.Tuple):
        given = given[0].elts
    names = read.split(",")
    if len(names) == len(given):
        for place, (letters, operand) in enumerate(zip(names, given, strict=True)):
            yield letters, [*names[:place], *names[place + 1 :], result], operand


def _is_product(file: File, node: ast.expr, context: Context) -> bool:
    """Whether the scores are of queries and keys, scaled and masked as may be, by another `einsum`."""
    for _ in range(_STEPS):
        node, context = source(file, node, context)
        func = node.func if isinstance(node, ast.Call) else None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Mult):
            node = node.left
        elif isinstance(func, ast.Attribute) and func.attr in _KEPT:
            node = func.value
        else:
            return isinstance(node, ast.Call) and last_name(node.func) == "einsum"
    return False
