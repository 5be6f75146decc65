"""Weights that add up to one over a batch, and are then multiplied sample by sample."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.softmax_layers import softmax_layer
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

_SOFTMAX = ("torch.softmax", "torch.nn.functional.softmax")
_PRODUCTS = ("torch.bmm", "torch.baddbmm")
_SAME = frozenset(["contiguous", "float", "to", "type_as", "half", "clone", "detach"])
_STEPS = 6


def weighed_across(sites: Sites) -> Iterator[Finding]:
    """`a = F.softmax(e, dim=0)`, and `torch.bmm(a.unsqueeze(1), values)`."""
    for file in sites.mentioning(["bmm("]):
        for product in file.calls("bmm", "baddbmm") if "oftmax" in file.text else ():
            func = product.node.func
            named = file.resolve(func, product.context)
            given = list(product.node.args)
            if named not in _PRODUCTS and isinstance(func, ast.Attribute):
                given.insert(0, func.value)
            for operand in given:
                made = _softmax(file, operand, product.context)
                if made is not None:
                    yield Finding(
                        "These weights add up to one over the samples of the batch, and each is multiplied by itself",
                        made.place.location,
                        help="`dim=1` or `dim=-1`: the dimension that the product sums over",
                        related=(product.place.location,),
                    )


def _softmax(file: File, node: ast.expr, context: Context) -> Call | None:
    """The softmax over dimension 0 that the first dimension of an operand still is of."""
    for _ in range(_STEPS):
        node, context = source(file, node, context)
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return None
        call, of_library = Call(file, node, context), file.resolve(node.func, context) in _SOFTMAX
        layer = softmax_layer(call)
        if layer is not None:
            dim = layer.constant("dim", 0)
            return layer if dim == 0 and dim is not False else None
        if node.func.attr == "softmax" and (of_library or file.resolve(node.func, context) is None):
            dim = call.constant("dim", int(of_library))
            return call if dim == 0 and dim is not False else None
        if not _keeps_first(call):
            return None
        node = node.func.value
    return None


def _keeps_first(call: Call) -> bool:
    """Whether a method leaves the first dimension where it is: `unsqueeze(1)`, `permute(0, 2, 1)`."""
    assert isinstance(call.node.func, ast.Attribute)
    method, given = call.node.func.attr, [call.file.constant(each, call.context) for each in call.node.args]
    if call.node.keywords:
        return False
    if method in _SAME:
        return True
    if method in ("unsqueeze", "squeeze"):
        return len(given) == 1 and given[0] in (1, 2, -1)
    if method == "permute":
        return given[:1] == [0]
    return method == "transpose" and set(given) in ({1, 2}, {-1, -2}, {-1, 1})
