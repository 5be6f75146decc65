"""Pictures that are turned into tokens, channels last, and taken for pictures again without being turned back."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import before_methods
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Call

_COPIES = ("contiguous", "clone", "float")


def is_tokens_as_picture(call: Call, owner: ast.expr, sizes: list[ast.expr]) -> bool:
    """`t = x.view(b, -1, h, w).permute(0, 2, 3, 1).reshape(b, -1, width)`, and `t[:, :n, :].view(b, -1, h, w)`."""
    texts = [ast.unparse(size) for size in sizes]
    if call.function is None or len(texts) != 4 or texts[1] != "-1" or not all(map(str.isidentifier, texts[2:])):
        return False
    if isinstance(owner, ast.Subscript) and isinstance(owner.slice, ast.Tuple):
        if not all(isinstance(part, ast.Slice) for part in owner.slice.elts):
            return False
        owner = owner.value
    tokens = _sizes(source(call.file, owner, call.context)[0])
    if not isinstance(owner, ast.Name) or len(tokens) != 3 or tokens[2] in (*texts, "-1"):
        return False
    return any(_turned(node) == (*texts[2:], tokens[2]) for node in call.function.all(ast.Call))


def _turned(node: ast.Call) -> tuple[str, ...]:
    """`h`, `w` and `width` of `x.view(b, -1, h, w).permute(0, 2, 3, 1).reshape(b, -1, width)`."""
    tokens = _sizes(node)
    turned = before_methods(node.func.value, _COPIES) if isinstance(node.func, ast.Attribute) else None
    if len(tokens) != 3 or not isinstance(turned, ast.Call) or not isinstance(turned.func, ast.Attribute):
        return ()
    order = [part.value for part in turned.args if isinstance(part, ast.Constant)]
    picture = _sizes(turned.func.value)
    first, *rest = range(len(picture))[-3:] if len(picture) > 3 else (0,)
    moved = turned.func.attr == "permute" and order == [*range(first), *rest, first]
    return (*picture[-2:], tokens[2]) if moved and rest else ()


def _sizes(node: ast.expr) -> list[str]:
    """The sizes that a `view` or `reshape` gives."""
    match node:
        case ast.Call(func=ast.Attribute(attr="view" | "reshape"), args=[ast.Tuple(elts=parts)]):
            return [ast.unparse(part) for part in parts]
        case ast.Call(func=ast.Attribute(attr="view" | "reshape"), args=parts):
            return [ast.unparse(part) for part in parts]
    return []
