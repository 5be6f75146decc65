"""What an expression makes of a tensor, as far as its text tells: which activation, and of what."""

from __future__ import annotations

import ast

from mlcheck.lint.names import canonical
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
        if not (isinstance(owner, ast.Name) and owner.id == "self"):
            return node.func.attr, owner, context
    held, where = file.value(node.func, context)
    made = file.resolve(held.func, where) if isinstance(held, ast.Call) else None
    if isinstance(made, str) and canonical(made) in _LAYERS and node.args:
        return _LAYERS[canonical(made)], node.args[0], context
    return None
