"""Labels that are the same for every sample: what a discriminator is told of a whole batch."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import before_methods, is_name, last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.scopes import Context

_MOVES = ("to", "cuda", "type_as", "float", "expand_as", "unsqueeze", "squeeze", "view", "detach", "requires_grad_")
_MADE = {"ones": 1.0, "ones_like": 1.0, "new_ones": 1.0, "zeros": 0.0, "zeros_like": 0.0, "new_zeros": 0.0}
_HALF = 0.5
_DEPTH = 4


def constant_label(file: File, node: ast.expr, context: Context) -> str:
    """`one` for `torch.ones(n, 1)`, `zero` for `label.fill_(0.0)`; "" where it is neither, or not certain."""
    if _is_written_to(file, node, context):
        return ""
    found = origins(file, before_methods(node, _MOVES), context)
    if len(found) != 1:
        return ""
    file, node, context = found[0].file, before_methods(found[0].node, _MOVES), found[0].context
    while isinstance(node, ast.Call) and last_name(node.func) == "Variable" and node.args:
        node = before_methods(node.args[0], _MOVES)
    value = _value(file, node, context)
    if value is None or value == _HALF:
        return ""
    return "one" if value > _HALF else "zero"


def _value(file: File, node: ast.expr, context: Context) -> float | None:
    if not isinstance(node, ast.Call):
        return None
    last = last_name(node.func)
    if last in _MADE:
        return _MADE[last]
    if last in ("FloatTensor", "Tensor") and node.args:
        return _value(file, node.args[0], context)
    position = 1 if last in ("full", "full_like") else 0 if last == "fill_" else None
    filled = node.args[position] if position is not None and len(node.args) > position else None
    value = file.constant(filled, context) if filled is not None else None
    return float(value) if isinstance(value, int | float) else None


def _is_written_to(file: File, node: ast.expr, context: Context, depth: int = _DEPTH) -> bool:
    """Whether the tensor changes on the way under any of its names: `labels[torch.arange(n), classes] = 1`."""
    node = before_methods(node, _MOVES)
    if not isinstance(node, ast.Name) or not depth:
        return False
    if file.is_mutated(node.id, context) or _is_filled_again(file, node.id):
        return True
    values = [each.value for each in file.bindings(node.id, context) if isinstance(each.value, ast.expr)]
    return any(_is_written_to(file, value, context, depth - 1) for value in values)


def _is_filled_again(file: File, name: str) -> bool:
    """`label.fill_(0)` as a line of its own: what it holds changes on the way."""
    for call in file.calls("fill_", "zero_", "mul_", "uniform_"):
        if isinstance(call.node.func, ast.Attribute) and any(is_name(part, name) for part in walk(call.node.func)):
            return True
    return False
