"""What becomes of a model's answer: it is read as an array just as it is, or only its largest score counts."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.nodes import last_name, walk

_KEEP_GRADIENTS = frozenset(
    [
        *("cpu", "to", "float", "double", "clone", "contiguous", "squeeze", "unsqueeze", "view", "reshape", "flatten"),
        *("permute", "transpose", "mean", "sum", "softmax", "sigmoid", "exp", "get"),
    ]
)


def read_as_array(function: ast.AST, call: ast.AST) -> bool:
    """`out = model(x)`, then `out["boxes"][0].cpu().numpy()`: torch raises where the tensor requires gradients."""
    arrays = [
        _origin(node.func.value)
        for node in walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "numpy"
    ]
    if not arrays or call in arrays:
        return bool(arrays)
    names = set(_names_of(function, call))
    stored = [node.id for node in walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    once = {name for name in names if stored.count(name) == 1}
    return any(isinstance(origin, ast.Name) and origin.id in once for origin in arrays)


def _names_of(function: ast.AST, call: ast.AST) -> Iterator[str]:
    for node in walk(function):
        if isinstance(node, ast.Assign) and node.value is call:
            for target in node.targets:
                elements = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
                yield from (element.id for element in elements if isinstance(element, ast.Name))


def _origin(node: ast.expr) -> ast.expr:
    """`out` of `out.logits[0].cpu()`: whatever of it requires gradients still does."""
    while True:
        match node:
            case ast.Call(func=ast.Attribute(attr=name, value=inner)) if name in _KEEP_GRADIENTS:
                node = inner
            case ast.Attribute(attr=name, value=inner) if name != "data":
                node = inner
            case ast.Subscript(value=inner):
                node = inner
            case _:
                return node


def is_decided(parents: dict[ast.AST, ast.AST], node: ast.AST) -> bool:
    """`node.argmax(1)`, `node.softmax(1).argmax(1)`, `torch.argmax(node, 1)`."""
    around = parents.get(node)
    while isinstance(around, ast.Attribute | ast.Call) and not (
        isinstance(around, ast.Call) and node is not around.func
    ):
        if isinstance(around, ast.Attribute) and around.attr in ("argmax", "item", "tolist"):
            return True
        node, around = around, parents.get(around)
    if isinstance(around, ast.Call) and node in around.args[:1] and last_name(around.func) == "max":
        return _is_place(parents.get(around))
    if isinstance(around, ast.Call) and node in around.args[:1] and last_name(around.func) == "argmax":
        return True
    return last_name(getattr(node, "func", None)) == "max" and _is_place(around)


def _is_place(around: ast.AST | None) -> bool:
    """`_, best = out.max(1)`, `out.max(1)[1]`: of the largest only where it stands."""
    match around:
        case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id="_"), _])]):
            return True
        case ast.Subscript(slice=ast.Constant(value=1)):
            return True
    return False
