"""What an expression makes of a tensor, as far as its text tells: which activation, and of what."""

from __future__ import annotations

import ast

from mlcheck.lint.names import canonical
from mlcheck.lint.nodes import is_name
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.scopes import Context

_LAYERS = {
    "torch.nn.Softmax": "softmax",
    "torch.nn.Sigmoid": "sigmoid",
    "torch.nn.LogSoftmax": "log_softmax",
    "torch.nn.LogSigmoid": "logsigmoid",
}
_NAMES = ("softmax", "sigmoid", "log_softmax", "logsigmoid")
_ROOTS = ("torch.", "torch.nn.functional.", "torch.special.")


def activation(file: File, node: ast.expr, context: Context) -> tuple[str, ast.expr, Context] | None:
    """The activation an expression applies, and what it is applied to; None where it is none, or not known."""
    node, context = source(file, node, context)
    if not isinstance(node, ast.Call):
        return None
    named = file.resolve(node.func, context)
    if isinstance(named, str):
        name = canonical(named)
        last = name.rpartition(".")[2]
        known = last in _NAMES and name.startswith(_ROOTS) and node.args
        return (last, node.args[0], context) if known else None
    if isinstance(node.func, ast.Attribute) and node.func.attr in _NAMES and named is None:
        owner = node.func.value
        if not is_name(owner, "self"):
            return node.func.attr, owner, context
    held, where = file.value(node.func, context)
    made = file.resolve(held.func, where) if isinstance(held, ast.Call) else None
    if isinstance(made, str) and canonical(made) in _LAYERS and node.args:
        return _LAYERS[canonical(made)], node.args[0], context
    return None


_NEW = frozenset(["zeros", "ones", "full", "eye", "arange", "linspace", "logspace", "hann_window", "hamming_window"])
_OF_OTHERS = frozenset(
    ["stack", "cat", "meshgrid", "exp", "log", "sin", "cos", "sqrt", "pow", "outer", "einsum", "tril"]
)
_OF_OTHERS |= {
    "triu",
    "cumsum",
    "cumprod",
    "reciprocal",
    "flip",
    "concat",
    "repeat_interleave",
    "roll",
    "where",
    "diff",
}
_MOVING = frozenset(["to", "cuda", "type", "type_as", "item", "numpy", "tolist", "requires_grad_", "register_buffer"])
_DEEP = 12


def is_on_cpu(file: File, node: ast.expr, context: Context, depth: int = _DEEP) -> bool:
    """Whether an expression certainly makes a tensor on the default device, out of numbers alone."""
    if depth <= 0:
        return False
    if isinstance(node, ast.Name):
        bindings = file.bindings(node.id, context)
        values = [
            each.value for each in bindings if each.kind in ("value", "item") and isinstance(each.value, ast.expr)
        ]
        grown = len(bindings) > 3 or len(values) != len(bindings) or not values
        return not grown and all(
            is_on_cpu(file, each.value, each.context, depth - 1)
            for each in bindings
            if isinstance(each.value, ast.expr)
        )
    if isinstance(node, ast.BinOp):
        return any(is_on_cpu(file, side, context, depth - 1) for side in (node.left, node.right))
    if isinstance(node, ast.UnaryOp):
        return is_on_cpu(file, node.operand, context, depth - 1)
    if isinstance(node, ast.Subscript):
        return is_on_cpu(file, node.value, context, depth - 1)
    if not isinstance(node, ast.Call) or any(keyword.arg in ("device", None) for keyword in node.keywords):
        return False
    named = file.resolve(node.func, context)
    name = canonical(named) if isinstance(named, str) else ""
    last = name.rpartition(".")[2]
    if name.startswith("torch.") and last in _NEW:
        return bool(node.args)
    if name == "torch.tensor":
        return bool(node.args) and isinstance(node.args[0], ast.List | ast.Tuple)
    if name.startswith("torch.") and last in _OF_OTHERS and node.args:
        listed = isinstance(node.args[0], ast.List | ast.Tuple)
        parts = node.args[0].elts if isinstance(node.args[0], ast.List | ast.Tuple) else node.args
        found = [is_on_cpu(file, part, context, depth - 1) for part in parts]
        return bool(found) and (all(found) if listed else any(found))
    if named is None and isinstance(node.func, ast.Attribute) and node.func.attr not in _MOVING:
        return is_on_cpu(file, node.func.value, context, depth - 1)
    return False
