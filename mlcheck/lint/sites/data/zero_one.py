"""Tensors that hold zeros and ones alone, as comparisons do, through data sets and loaders."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.data.batch_items import behind_loaders
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.scopes import Context

_KEEPS = frozenset(
    [
        *("float", "int", "long", "double", "half", "bool", "to", "cuda", "cpu", "type", "clone", "detach"),
        *("contiguous", "unsqueeze", "squeeze", "view", "reshape", "flatten", "expand", "repeat", "astype"),
    ]
)
_CONVERTS = frozenset(
    ["builtins.float", "builtins.int", "torch.tensor", "torch.as_tensor", "torch.from_numpy", "numpy.float32"]
)
_ZEROS = ("torch.zeros", "torch.zeros_like", "numpy.zeros", "numpy.zeros_like")
_DEPTH = 8


def is_zero_one(file: File, node: ast.expr, context: Context, depth: int = _DEPTH) -> bool:
    """Whether a value is certain to be 0 or 1 everywhere, and may be 0."""
    sources = [each for origin in origins(file, node, context) for each in behind_loaders(origin)]
    told = [each for each in sources if isinstance(each.node, ast.Constant)]
    others = [each for each in sources if each not in told]
    numbers = {each.node.value for each in told if isinstance(each.node, ast.Constant)}
    if not numbers <= {0, 1} or not (others or numbers == {0, 1}):
        return False
    return depth > 0 and all(_is_made_so(origin, depth) for origin in others)


def _is_made_so(origin: Origin, depth: int) -> bool:
    file, node, context = origin.file, origin.node, origin.context
    if isinstance(node, ast.Compare):
        return not isinstance(node.ops[0], ast.Is | ast.IsNot | ast.In | ast.NotIn)
    if isinstance(node, ast.IfExp):
        return _numbers(node) == [0, 1]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr):
        return all(is_zero_one(file, side, context, depth - 1) for side in (node.left, node.right))
    if not isinstance(node, ast.Call):
        return False
    named = file.called(node, context)
    if named in _CONVERTS and node.args:
        return is_zero_one(file, node.args[0], context, depth - 1)
    if named in _ZEROS:
        return all(_gets_ones_alone(file, name, context) for name in file.names_given(node))
    if named == "torch.nn.functional.one_hot":
        return True
    if named == "torch.randint":
        bounds = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
        return bounds in ([0, 2], [2])
    func = node.func
    of_value = isinstance(func, ast.Attribute) and func.attr in _KEEPS and not named
    return of_value and isinstance(func, ast.Attribute) and is_zero_one(file, func.value, context, depth - 1)


def _gets_ones_alone(file: File, name: str, context: Context) -> bool:
    """Whether all that is put into zeros is 1: `target[labels] = 1`, `target.scatter_(0, labels, 1)`."""
    function = file.function_around(context)
    for node in function.nodes if function is not None else ():
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            if last_name(node.targets[0].value) == name and not _is_one(node.value):
                return False
        elif isinstance(node, ast.AugAssign):
            into = node.target.value if isinstance(node.target, ast.Subscript) else node.target
            if last_name(into) == name:
                return False
        elif isinstance(node, ast.Call):
            owner = node.func.value if isinstance(node.func, ast.Attribute) else None
            filled = last_name(owner) == name and last_name(node.func).endswith("_")
            handed = any(last_name(arg) == name for arg in node.args) and not _is_of_torch(file, node, context)
            if handed or (filled and not (last_name(node.func) == "scatter_" and node.args and _is_one(node.args[-1]))):
                return False
    return function is not None


def _is_of_torch(file: File, node: ast.Call, context: Context) -> bool:
    """A function of torch, or a call of what one of its classes made, as of a loss: it leaves its arguments alone."""
    made, where = file.value(node.func, context)
    return file.called(node, context).startswith(("torch.", "builtins.")) or file.called(made, where).startswith(
        "torch."
    )


def _is_one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in (1, 1.0)


def _numbers(node: ast.IfExp) -> list[int | float]:
    arms = [arm.value for arm in (node.body, node.orelse) if isinstance(arm, ast.Constant)]
    return sorted(arm for arm in arms if isinstance(arm, int | float))
