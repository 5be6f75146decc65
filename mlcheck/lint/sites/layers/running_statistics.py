"""Which expressions make a model with batch norm, whose statistics follow the data while it is in train mode."""

from __future__ import annotations

import ast

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import before_methods, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.layers.modules import is_module, text_of
from mlcheck.lint.sites.model import Class, Function
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.scopes import Context

_NORM = pattern(r"BatchNorm[123]d|SyncBatchNorm")
_WITH_NORMS = pattern(
    r"torchvision\.models\.(?:\w+\.)?(?:wide_)?(?:resne|densenet|mobilenet|efficientnet|regnet|shufflenet|inception"
    r"|googlenet|mnasnet)\w*"
)
_KEEPS = ("to", "cuda", "cpu", "float", "double", "train", "eval", "requires_grad_", "children", "modules")
_DEPTH = 4


def keeps_statistics(file: File, node: ast.expr, context: Context, depth: int = _DEPTH) -> bool:
    """Whether it certainly makes such a model: here, in a class or function of the project, or out of another one."""
    node = before_methods(node, _KEEPS)
    if depth <= 0:
        return False
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Call):
        return keeps_statistics(file, node.value, context, depth)  # `resnet18().layer1`
    if isinstance(node, ast.Name | ast.Attribute):
        found = [each for each in origins(file, node, context) if each.node is not node]
        return bool(found) and all(keeps_statistics(each.file, each.node, each.context, depth - 1) for each in found)
    if not isinstance(node, ast.Call):
        return False
    named = file.resolve(node.func, context)
    if isinstance(named, Class):
        return is_module(named) and file.sites.once_of(_is_made_with_norms, (named, depth))
    if isinstance(named, Function):
        return file.sites.once_of(_makes_norms, (named, depth))
    if isinstance(named, str) and _WITH_NORMS.fullmatch(named):
        return True
    if _NORM.search(ast.unparse(node)):
        return True
    parts = [part for arg in node.args for part in walk(arg) if isinstance(part, ast.Name | ast.Call)]
    return any(keeps_statistics(file, part, context, depth - 1) for part in parts)


def _is_made_with_norms(asked: tuple[Class, int]) -> bool:
    cls, depth = asked
    if _NORM.search(text_of(cls)) is not None:
        return True
    made = (method for each in cls.line for name, method in each.methods.items() if name == "__init__")
    return any(_makes_norms((method, depth)) for method in made)


def _makes_norms(asked: tuple[Function, int]) -> bool:
    """Whether a function writes such a layer down, or calls one that does."""
    function, depth = asked
    if _NORM.search(function.text) is not None:
        return True
    return any(
        keeps_statistics(function.file, call, function.inner, depth - 1)
        for call in function.all(ast.Call)
        if isinstance(function.file.resolve(call.func, function.inner), Class | Function)
    )
