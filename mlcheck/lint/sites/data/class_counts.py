"""Weights of classes that are made of how often each of them occurs."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import is_name, last_name, loads
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.origins import Origin, sole
from mlcheck.lint.sites.scopes import Context

_WRAPPERS = ("tensor", "as_tensor", "from_numpy", "FloatTensor", "DoubleTensor", "Tensor", "array", "asarray", "list")
_METHODS = ("float", "double", "cuda", "tolist", "to", "astype", "numpy", "sqrt", "clamp", "cpu", "values", "log1p")
_COUNTS = ("bincount", "value_counts", "Counter")


def counted(file: File, node: ast.expr, context: Context, inverse: bool = False) -> Origin | None:
    """The counting of classes that the weights are the inverse of; None of anything longer, and of the counts.

    `inverse`: as they are inverted already, weights that grow with the counts.
    """
    for _ in range(12):
        found = sole(file, node, context)
        if found is None:
            return None
        file, node, context = found[:3]
        if isinstance(node, ast.BinOp):
            return _in_sides(file, node, context, inverse)
        if isinstance(node, ast.ListComp):
            return _in_list(file, node, context, inverse)
        if isinstance(node, ast.DictComp):
            return _in_table(file, node, context, inverse)
        if not isinstance(node, ast.Call):
            return None
        last = last_name(node.func)
        if last == "compute_class_weight":
            return None if inverse else Origin(file, node, context)
        if last in _COUNTS or (last == "unique" and any(keyword.arg == "return_counts" for keyword in node.keywords)):
            return Origin(file, node, context) if inverse else None
        if last in _METHODS and isinstance(node.func, ast.Attribute):
            node = node.func.value
        elif last in _WRAPPERS and node.args:
            node = node.args[0]
        else:
            return None
    return None


def _in_sides(file: File, node: ast.BinOp, context: Context, inverse: bool) -> Origin | None:
    """`1 / counts`, `counts ** -0.5`, `2 * (1 / counts)`."""
    turned = isinstance(node.op, ast.Pow) and ast.unparse(node.right).startswith("-")
    if not isinstance(node.op, ast.Div | ast.Mult | ast.Add | ast.Pow):
        return None
    left = counted(file, node.left, context, inverse != turned)
    return left or counted(file, node.right, context, inverse != isinstance(node.op, ast.Div))


def _in_list(file: File, made: ast.ListComp, context: Context, inverse: bool) -> Origin | None:
    """`[1 / c for c in counts]`, `[(y == c).sum() for c in range(10)]`: one item for each class."""
    item, over = made.elt, made.generators[0].iter
    inner = Context("comprehension", made, context, context.scope)
    one = last_name(made.generators[0].target)
    if isinstance(item, ast.Subscript) and is_name(item.slice, one) and _is_keys_of(over, item.value):
        return counted(file, item.value, inner, inverse)
    match over, item:
        case ast.Call(func=ast.Name(id="range")), ast.BinOp(op=ast.Div(), right=ast.Subscript(value=held, slice=index)):
            return counted(file, held, inner, not inverse) if is_name(index, one) else None
        case ast.Call(func=ast.Name(id="range")), ast.Subscript(value=held, slice=index):
            return counted(file, held, inner, inverse) if is_name(index, one) else None
    if isinstance(over, ast.Call) and last_name(over.func) == "range" and "len(" not in ast.unparse(over):
        by_hand = "==" in ast.unparse(item) and ("sum" in ast.unparse(item) or "count" in ast.unparse(item))
        return Origin(file, made, context) if by_hand and inverse else None
    turned = isinstance(item, ast.BinOp) and isinstance(item.op, ast.Div) and loads(item.right, one)
    return counted(file, over, context, inverse != turned)


def _is_keys_of(over: ast.expr, table: ast.expr) -> bool:
    """`weights`, `weights.keys()` and `sorted(weights)`, to which a table is asked for each of its entries."""
    match over:
        case ast.Call(func=ast.Name(id="sorted" | "list"), args=[inner]):
            return _is_keys_of(inner, table)
        case ast.Call(func=ast.Attribute(value=owner, attr="keys"), args=[]):
            return ast.dump(owner) == ast.dump(table)
    return ast.dump(over) == ast.dump(table)


def _in_table(file: File, made: ast.DictComp, context: Context, inverse: bool) -> Origin | None:
    """`{c: 1 / n for c, n in counts.items()}`."""
    inner = Context("comprehension", made, context, context.scope)
    match made.generators:
        case [
            ast.comprehension(
                target=ast.Tuple(elts=[ast.Name(id=label), ast.Name(id=count)]),
                iter=ast.Call(func=ast.Attribute(value=counts, attr="items")),
            )
        ] if is_name(made.key, label):
            turned = isinstance(made.value, ast.BinOp) and isinstance(made.value.op, ast.Div)
            inverted = turned and isinstance(made.value, ast.BinOp) and loads(made.value.right, count)
            return counted(file, counts, inner, inverse != inverted) if loads(made.value, count) else None
    return None
