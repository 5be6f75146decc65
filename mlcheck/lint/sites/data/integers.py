"""Tensors that are certain to hold whole numbers, as class indices do, or none, through data sets and loaders."""

from __future__ import annotations

import ast
from typing import TypeGuard

from mlcheck.lint.sites.data.batch_items import behind_loaders, is_settled
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.scopes import Context

_WHOLE = frozenset(f"torch.{name}" for name in ("long", "int64", "int", "int32"))
_FLOATING = frozenset(f"torch.{name}" for name in ("float", "float32", "double", "float64", "half", "float16"))
_TO_WHOLE, _TO_FLOATING = ("long", "int"), ("float", "double", "half")
_SAME_TYPE = frozenset(["cuda", "cpu", "clone", "detach", "contiguous", "unsqueeze", "squeeze", "view", "reshape"])
_SAME_TYPE |= {"flatten", "expand", "repeat", "transpose", "permute", "expand_as", "view_as", "t"}
_MAKERS = ("torch.tensor", "torch.as_tensor", "torch.zeros", "torch.ones")
ONE_HOT = "torch.nn.functional.one_hot"
_DEPTH = 8


def is_integer(file: File, node: ast.expr, context: Context, depth: int = _DEPTH) -> bool:
    """Whether a tensor holds integers, by all that it may come from."""
    sources = _sources(file, node, context) if depth > 0 else []
    return bool(sources) and all(_is_made_so(origin, depth) for origin in sources)


def is_floating(file: File, node: ast.expr, context: Context, depth: int = _DEPTH) -> bool:
    """Whether a tensor holds floating-point numbers, by all that it may come from."""
    sources = _sources(file, node, context) if depth > 0 else []
    return bool(sources) and all(_is_made_floating(origin, depth) for origin in sources)


def _sources(file: File, node: ast.expr, context: Context) -> list[Origin]:
    """All that a tensor may come from, through loaders and data sets; none where its name may hold something else."""
    node, context = source(file, node, context)
    if isinstance(node, ast.Name) and not is_settled(file, node.id, context):
        return []
    return [each for origin in origins(file, node, context) for each in behind_loaders(origin)]


def is_one_hot(file: File, node: ast.expr, context: Context, depth: int = _DEPTH) -> bool:
    """Whether it is what `one_hot` returned, of whatever type by now."""
    if not any(file.sites.mentioning(["one_hot"])):
        return False
    node, context = source(file, node, context)
    if isinstance(node, ast.Name) and not is_settled(file, node.id, context):
        return False
    for origin in origins(file, node, context) if depth > 0 else ():
        if file.called(origin.node, origin.context) == ONE_HOT:
            continue
        func = origin.node.func if isinstance(origin.node, ast.Call) else None
        own = isinstance(func, ast.Attribute) and func.attr in (*_SAME_TYPE, *_TO_WHOLE, "float", "to")
        if not own or not isinstance(func, ast.Attribute):
            return False
        if not is_one_hot(origin.file, func.value, origin.context, depth - 1):
            return False
    return depth > 0


def _is_indexed(node: ast.expr) -> TypeGuard[ast.Subscript]:
    """`self.labels[i]`: of a tensor, its own type."""
    return (
        isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and isinstance(node.slice, ast.Name)
    )


def _is_made_so(origin: Origin, depth: int) -> bool:
    file, node, context = origin.file, origin.node, origin.context
    if _is_indexed(node):
        return is_integer(file, node.value, context, depth - 1)
    if not isinstance(node, ast.Call):
        return False
    named, call = file.called(node, context), Call(file, node, context)
    if named in (ONE_HOT, "torch.LongTensor"):
        return True
    if named in ("torch.randint", "torch.full", *_MAKERS):
        given = call.argument("dtype")
        if given is not None:
            return file.resolve(given, context) in _WHOLE
        fill = call.constant("fill_value", 1) if named == "torch.full" else None
        return named == "torch.randint" or (isinstance(fill, int) and not isinstance(fill, bool))
    if named or not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr in _TO_WHOLE:
        return not node.args
    if node.func.attr in ("to", "type") and len(node.args) == 1 and not node.keywords:
        return file.resolve(node.args[0], context) in _WHOLE
    return node.func.attr in _SAME_TYPE and is_integer(file, node.func.value, context, depth - 1)


def _is_made_floating(origin: Origin, depth: int) -> bool:
    file, node, context = origin.file, origin.node, origin.context
    if _is_indexed(node):
        return is_floating(file, node.value, context, depth - 1)
    if not isinstance(node, ast.Call):
        return False
    named, call = file.called(node, context), Call(file, node, context)
    if named in _MAKERS:
        given = call.argument("dtype")
        return given is not None and file.resolve(given, context) in _FLOATING
    if named or not isinstance(node.func, ast.Attribute):
        return named == "torch.FloatTensor"
    if node.func.attr in _TO_FLOATING:
        return not node.args
    if node.func.attr in ("to", "type") and len(node.args) == 1 and not node.keywords:
        return file.resolve(node.args[0], context) in _FLOATING
    return node.func.attr in _SAME_TYPE and is_floating(file, node.func.value, context, depth - 1)
