"""Scores of every step of a sequence: of (samples, steps, classes), the classes are the last dimension."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.recurrent import Outputs, dimension_of_size, outputs
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.scopes import Context

_SEQUENCES = frozenset(["torch.nn.TransformerEncoder", "torch.nn.TransformerDecoder"])
_STEPWISE = frozenset(
    f"torch.nn.{name}"
    for name in ("Linear", "Dropout", "LayerNorm", "ReLU", "Tanh", "GELU", "ELU", "SiLU", "LeakyReLU", "Sigmoid")
)
_FUNCTIONS = frozenset(["relu", "tanh", "gelu", "elu", "silu", "leaky_relu", "dropout", "sigmoid"])
_DEEP = 6


def has_steps(call: Call) -> bool:
    """Whether a softmax is given what layers made of each step of a recurrent layer or transformer by itself."""
    given = _given(call)
    return given is not None and _has_steps(call.file, given, call.context, _DEEP)


def has_samples_second(call: Call) -> bool:
    """Whether a softmax is given (steps, samples, scores): what layers made of the steps of one that has time first.

    That there are three dimensions is told by a slice or a view of them: of one sequence by itself there are two.
    """
    given = _given(call)
    return given is not None and _three_of(call.file, given, call.context, _DEEP, told=False) is not None


def _given(call: Call) -> ast.expr | None:
    given = call.argument("input", 0)
    of_method = call.owner if last_name(call.node.func) in ("log_softmax", "softmax") else None
    if of_method is not None and not call.file.called(call.node, call.context):
        given = of_method
    return given if isinstance(given, ast.expr) else None


def _three_of(file: File, node: ast.expr, context: Context, depth: int, told: bool) -> Outputs | None:
    """The recurrent layer with time first whose first two dimensions are still those of `node`."""
    if depth <= 0:
        return None
    made = outputs(file, node, context)
    if made is not None:
        return made if told and made.batch_first is False else None
    node, context = source(file, node, context)
    match node:
        case ast.Subscript(value=whole, slice=ast.Tuple(elts=[one, two, ast.Slice()])):
            return _three_of(file, whole, context, depth - 1, told=True) if _all_of(one) and _all_of(two) else None
        case ast.Call(func=ast.Attribute(value=whole, attr="view" | "reshape"), args=[steps, samples, _]):
            made = _three_of(file, whole, context, depth - 1, told=True)
            asked = [dimension_of_size(file, size, context, made) for size in (steps, samples)] if made else []
            return made if asked == [0, 1] else None
        case ast.Call(args=[inner, *_]) if _works_on_each_step(file, node, context):
            return _three_of(file, inner, context, depth - 1, told)
    return None


def _all_of(part: ast.expr) -> bool:
    return isinstance(part, ast.Slice) and part.lower is part.upper is part.step is None


def _has_steps(file: File, node: ast.expr, context: Context, depth: int) -> bool:
    if depth <= 0:
        return False
    made = outputs(file, node, context)
    if made is not None:
        return made.batch_first is True  # else it may be one sentence by itself: (steps, classes)
    node, context = source(file, node, context)
    if not isinstance(node, ast.Call) or not node.args:
        return False
    layer = _layer(file, node, context)
    if layer in _SEQUENCES:
        cls = file.class_around(context)
        return cls is not None and "batch_first=True" in cls.text
    return _works_on_each_step(file, node, context) and _has_steps(file, node.args[0], context, depth - 1)


def _works_on_each_step(file: File, node: ast.Call, context: Context) -> bool:
    if _layer(file, node, context) in _STEPWISE:
        return True
    return last_name(node.func) in _FUNCTIONS and file.called(node, context) != ""


def _layer(file: File, node: ast.Call, context: Context) -> str:
    """The layer of its module that this calls, by the full name of its class; "" where it cannot be told."""
    function = file.function_around(context)
    name = own_attribute(node.func, function)
    sets = function.cls.attribute(name) if name and function is not None and function.cls is not None else []
    made = {method.file.called(assigned.value, assigned.context) for method, assigned in sets}
    return made.pop() if len(made) == 1 else ""
