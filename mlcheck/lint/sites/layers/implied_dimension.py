"""A softmax that is given no dimension, of a batched product: it takes the first of three, which is the batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.modules import module_classes
from mlcheck.lint.sites.model import OPEN, Call, Class
from mlcheck.lint.sites.scopes import Context

if TYPE_CHECKING:
    from mlcheck.lint.sites.file import File
    from mlcheck.lint.sites.project import Sites

FUNCTIONS = tuple(f"torch.nn.functional.{name}" for name in ("softmax", "log_softmax", "softmin"))
LAYERS = tuple(f"torch.nn.{name}" for name in ("Softmax", "LogSoftmax", "Softmin"))
_PRODUCTS = frozenset(["torch.bmm", "torch.baddbmm"])
_KEEPS_SHAPE = ("masked_fill", "masked_fill_", "clone", "contiguous", "float", "half", "div", "div_", "mul", "mul_")
_OTHER_NAMES = ("dims", "axis", "axes")
"""Names that other libraries have for `dim`: PyTorch takes them or stops at them, and guesses no dimension."""
_DEPTH = 8


def without_dimension(sites: Sites) -> list[Call]:
    """Where a softmax is called, or a layer of it made, and says no dimension."""
    named = [(call, 1 if call.name in FUNCTIONS else 0) for call in sites.calls(*FUNCTIONS, *LAYERS)]
    silent = (
        each for each in named if each[0].argument("dim", each[1]) is None or each[0].constant("dim", each[1]) is None
    )
    return [call for call, _ in silent if not any(word.arg in _OTHER_NAMES for word in call.node.keywords)]


def over_samples(sites: Sites) -> list[Call]:
    """Those that are taken of a batched product as it is, or scaled, or masked."""
    silent = sites.once(without_dimension)
    direct = [call for call in silent if call.name in FUNCTIONS]
    layers = {id(call.node) for call in silent if call.name in LAYERS}
    held = [call for cls in sites.once(module_classes) if layers for call in _calls_of(cls, layers)]
    return [call for call in (*direct, *held) if _is_of_product(call)]


def _calls_of(cls: Class, layers: set[int]) -> Iterator[Call]:
    """`self.attend(scores)`, where `self.attend = nn.Softmax()`."""
    for name, sets in cls.attributes.items():
        if len(sets) == 1 and id(sets[0][1].value) in layers:
            own = (call for call in cls.file.calls(name) if call.cls is cls)
            yield from (call for call in own if own_attribute(call.node.func, call.function))


def _is_of_product(call: Call) -> bool:
    given = call.argument("input", 0)
    return given is not None and given is not OPEN and _is_product(call.file, given, call.context, _DEPTH)


def _is_product(file: File, node: ast.expr, context: Context, depth: int) -> bool:
    """Whether it has the three dimensions of `torch.bmm`, (batch, n, m)."""
    if depth <= 0:
        return False
    node, context = source(file, node, context)
    if isinstance(node, ast.BinOp):
        sides = (node.left, node.right) if isinstance(node.op, ast.Mult | ast.Add) else (node.left,)
        scaled = isinstance(node.op, ast.Mult | ast.Div | ast.Add | ast.Sub)
        return scaled and any(_is_product(file, side, context, depth - 1) for side in sides)
    if not isinstance(node, ast.Call):
        return False
    if file.called(node, context) in _PRODUCTS:
        return True
    if not isinstance(node.func, ast.Attribute) or own_attribute(node.func, file.function_around(context)):
        return False
    if node.func.attr in ("bmm", "baddbmm"):
        return len(node.args) > 0
    return node.func.attr in _KEEPS_SHAPE and _is_product(file, node.func.value, context, depth - 1)
