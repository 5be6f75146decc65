"""Attention weights that are masked after the softmax, where the scores were to be masked before it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import before_methods, last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import reaching, source
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.scopes import Context

_PRODUCTS = ("torch.matmul", "torch.bmm")
_ITSELF = ("dropout", "drop", "attn_dropout", "attn_drop")
_METHODS = ("to", "type_as", "contiguous", "float")
_MASK = pattern(r"(?:^|_)(?:mask|pad|padding|valid|keep)(?:_|$)", re.IGNORECASE)
_OTHER_MASK = pattern(r"head|drop|rand|bernoulli", re.IGNORECASE)
_INFINITE = pattern(r"-(?:float\(['\"]inf|\w+\.inf)|float\(['\"]-inf|finfo\([^)]*\)\.min")
_NORMALISES = pattern(r"\bsum\(|normali[sz]e|norm\(")
_LOW = -100
_DEPTH = 6


class Masked(NamedTuple):
    """The softmax, and what masks its result: by minus infinity, or by nought without making up for it."""

    softmax: Call
    node: ast.expr
    by_infinity: bool


def masked_after(file: File) -> Iterator[Masked]:
    """Those whose result is the left factor of a matrix product."""
    for softmax in file.calls("softmax"):
        function = softmax.function
        if function is None:
            continue
        lefts = [left for node in function.nodes if (left := factors(file, node, softmax.context)[0]) is not None]
        for node in function.nodes:
            mask, kind = _masking(file, node, softmax)
            if (
                mask is None
                or not isinstance(node, ast.expr)
                or not any(_is(file, left, node, function) for left in lefts)
            ):
                continue
            if any(node.lineno < other.node.lineno for other in file.calls("softmax") if other.function is function):
                continue  # a second softmax makes weights of what is left
            if kind == "infinity" or (_is_only_mask(function, mask, softmax) and not _is_chosen(file, mask, softmax)):
                yield Masked(softmax, node, kind == "infinity")


def factors(file: File, node: ast.AST, context: Context) -> tuple[ast.expr | None, ast.expr | None]:
    """Both sides of a matrix product."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return node.left, node.right
    if isinstance(node, ast.Call) and len(node.args) == 2 and file.resolve(node.func, context) in _PRODUCTS:
        return node.args[0], node.args[1]
    match node:
        case ast.Call(func=ast.Attribute(value=left, attr="matmul" | "bmm"), args=[right]):
            return (left, right) if file.resolve(node.func, context) is None else (None, None)
    return None, None


def itself(node: ast.expr) -> ast.expr:
    """`x` of `self.dropout(x)` and of `x.to(v.dtype)`."""
    while isinstance(node, ast.Call):
        inner = before_methods(node, _METHODS)
        if inner is node and last_name(node.func) in _ITSELF and node.args:
            inner = node.args[0]
        if inner is node:
            break
        node = inner
    return node


def _masking(file: File, node: ast.AST, softmax: Call) -> tuple[ast.expr | None, str]:
    """The mask of `weights.masked_fill(mask, 0)`, `weights * mask` and `weights + (1 - mask) * -1e9`."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="masked_fill"), args=[mask, value], keywords=[]):
            kind = "infinity" if _is_low(file, value, softmax) else ""
            kind = kind or ("nought" if file.constant(value, softmax.context) == 0 else "")
            return (mask, kind) if kind and _comes_from(file, owner, softmax) else (None, "")
        case ast.BinOp(left=left, op=ast.Add(), right=ast.BinOp(op=ast.Mult()) as bias):
            low = any(_is_low(file, side, softmax) for side in (bias.left, bias.right))
            return (bias, "infinity") if low and _comes_from(file, left, softmax) else (None, "")
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            for weights, mask in ((left, right), (right, left)):
                if _names_mask(mask) and _comes_from(file, weights, softmax):
                    return mask, "nought"
    return None, ""


def _is_low(file: File, value: ast.expr, softmax: Call) -> bool:
    number = file.constant(value, softmax.context)
    if isinstance(number, int | float):
        return number <= _LOW
    return _INFINITE.match(ast.unparse(value)) is not None


def _names_mask(node: ast.expr) -> bool:
    names = [last_name(part) for part in walk(node) if isinstance(part, ast.Name | ast.Attribute)]
    return any(map(_MASK.search, names)) and not any(map(_OTHER_MASK.search, names))


def _comes_from(file: File, node: ast.expr, softmax: Call) -> bool:
    """Whether it is what the softmax gave, under whatever names."""
    function = softmax.function
    return function is not None and node.lineno >= softmax.node.lineno and _is(file, node, softmax.node, function)


def _is(file: File, node: ast.expr, wanted: ast.expr, function: Function, depth: int = _DEPTH) -> bool:
    """Whether it is that, or may be: `if mask is not None: weights = weights.masked_fill(...)`."""
    node = itself(node)
    if node is wanted or not isinstance(node, ast.Name) or not depth:
        return node is wanted
    made = [each.value for each in reaching(file, node, function.inner) if isinstance(each.value, ast.expr)]
    above = (each for each in made if each.lineno <= node.lineno)
    return any(_is(file, each, wanted, function, depth - 1) for each in above)


def _is_chosen(file: File, mask: ast.expr, softmax: Call) -> bool:
    """`keep = torch.rand_like(weights) > 0.1`, `keep = weights > 0.01`: dropout by hand, or the largest weights."""
    for part in walk(mask):
        if isinstance(part, ast.Name) and softmax.function is not None:
            made, _ = source(file, part, softmax.function.inner)
            if made is not part and _OTHER_MASK.search(ast.unparse(made)):
                return True
            if any(_comes_from(file, name, softmax) for name in walk(made) if isinstance(name, ast.Name)):
                return True
    return False


def _is_only_mask(function: Function, mask: ast.expr, softmax: Call) -> bool:
    """Whether nothing is masked before the softmax, and nothing makes up for what is taken away behind it."""
    if _NORMALISES.search(function.text) or function.text.count("softmax(") > 1:
        return False
    if not _names_mask(mask):
        return False
    names = {ast.unparse(part) for part in walk(mask) if isinstance(part, ast.Name | ast.Attribute)}
    for node in function.nodes:
        if not isinstance(node, ast.Name | ast.Attribute) or node.lineno > softmax.node.lineno:
            continue
        if not isinstance(node.ctx, ast.Load) or node in walk(mask):
            continue
        if ast.unparse(node) in names or _MASK.search(last_name(node)) or last_name(node) in ("masked_fill", "where"):
            return False
    return True
