"""Attention with several heads: what has its heads before the sequence, `(batch, heads, time, size)`."""

from __future__ import annotations

import ast
import re

from mlcheck.lint.nodes import is_name
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import latest, source
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.origins import returns
from mlcheck.lint.sites.scopes import Context

_ATTENTION = "torch.nn.functional.scaled_dot_product_attention"
_PRODUCTS = ("torch.matmul",)
_SAME = ("contiguous", "to", "type_as", "float", "half")
_DEPTH = 5


def sizes_before_heads(file: File, node: ast.expr, context: Context, depth: int = _DEPTH) -> list[str] | None:
    """`[batch, time]` where the tensor was viewed as (batch, time, heads, size) and then had its heads put first.

    So is what attention makes of such values. None for everything else.
    """
    stacked = _of_stacked(file, node, context)
    if stacked is not None:
        return stacked
    found, context = _followed(file, node, context)
    if depth == 0 or found is None:
        return None
    node = found
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return sizes_before_heads(file, node.right, context, depth - 1)
    if not isinstance(node, ast.Call):
        return None
    named = file.resolve(node.func, context)
    if named == _ATTENTION:
        value = node.args[2] if len(node.args) > 2 else next((k.value for k in node.keywords if k.arg == "value"), None)
        return sizes_before_heads(file, value, context, depth - 1) if value is not None else None
    if named in _PRODUCTS and len(node.args) == 2:
        return sizes_before_heads(file, node.args[1], context, depth - 1)
    function = named if isinstance(named, Function) else _own_method(file, node, context)
    if function is not None:
        given = list(returns(function))
        return sizes_before_heads(function.file, given[0], function.inner, depth - 1) if len(given) == 1 else None
    return _swapped(file, node, context)


def _followed(file: File, node: ast.expr, context: Context) -> tuple[ast.expr | None, Context]:
    """Through names, also of one of several values, and through calls that change no shape."""
    for _ in range(_DEPTH):
        node, context = source(file, node, context)
        if isinstance(node, ast.Name):
            found = latest(file, node, context)
            if found is None or found.kind != "item" or not isinstance(found.value, ast.Tuple | ast.List):
                return None, context
            if not 0 <= found.item < len(found.value.elts):
                return None, context
            node, context = found.value.elts[found.item], found.context
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SAME:
            node = node.func.value
        else:
            return node, context
    return None, context


def _of_stacked(file: File, node: ast.expr, context: Context) -> list[str] | None:
    """`q, k, v = x.reshape(b, t, 3, heads, size).permute(2, 0, 3, 1, 4).unbind(0)`, or `q = stacked[0]` of such."""
    node, context = source(file, node, context)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        node = node.value
    elif isinstance(node, ast.Name) and (found := latest(file, node, context)) is not None and found.kind == "item":
        if not isinstance(found.value, ast.expr):
            return None
        node, context = found.value, found.context
    else:
        return None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "unbind":
        node = node.func.value
    made, context = source(file, node, context)
    if not isinstance(made, ast.Call) or not isinstance(made.func, ast.Attribute) or made.func.attr != "permute":
        return None
    view, _ = source(file, made.func.value, context)
    sizes = _view_sizes(view)
    order = ",".join(ast.unparse(arg) for arg in made.args)
    return [size_text(size) for size in sizes[:2]] if len(sizes) == 5 and order == "2,0,3,1,4" else None


def _view_sizes(view: ast.expr) -> list[ast.expr]:
    """The sizes that a `view` or `reshape` asks for."""
    if not isinstance(view, ast.Call) or not isinstance(view.func, ast.Attribute):
        return []
    if view.func.attr not in ("view", "reshape"):
        return []
    return list(view.args[0].elts) if len(view.args) == 1 and isinstance(view.args[0], ast.Tuple) else view.args


def _own_method(file: File, node: ast.Call, context: Context) -> Function | None:
    """`self.split_heads(...)`."""
    around = file.function_around(context)
    if around is None or around.cls is None or not isinstance(node.func, ast.Attribute):
        return None
    own = is_name(node.func.value, around.receiver)
    return around.cls.find(node.func.attr) if own else None


def _swapped(file: File, node: ast.Call, context: Context) -> list[str] | None:
    """`x.view(b, t, heads, size).transpose(1, 2)`, `....permute(0, 2, 1, 3)`."""
    func = node.func
    if not isinstance(func, ast.Attribute) or node.keywords:
        return None
    order = re.sub(r"[()\s]", "", ",".join(ast.unparse(arg) for arg in node.args))
    if (func.attr, order) not in (("transpose", "1,2"), ("transpose", "2,1"), ("permute", "0,2,1,3")):
        return None
    sizes = [size_text(size) for size in _view_sizes(source(file, func.value, context)[0])]
    return sizes[:2] if len(sizes) == 4 and sizes[1] != sizes[2] else None  # of one size, either may be the sequence


def size_text(size: ast.expr) -> str:
    """A size as written, whatever tensor is asked: `x.size(0)` and `query.shape[0]` are one."""
    return re.sub(r"\w+\.(?:size\((\d)\)|shape\[(\d)\])", r"\1\2:", ast.unparse(size))
