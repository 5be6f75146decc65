"""Tensors of a constructor that gradients are asked for: where they are made, under a name, or once they are kept."""

from __future__ import annotations

import ast

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import is_name
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.scopes import AttributeSet


class Leaf(NamedTuple):
    """The function of torch that made a tensor, and whether it is asked to have a gradient."""

    maker: str
    asks: bool


def leaf_of(function: Function, assigned: AttributeSet) -> Leaf | None:
    """`torch.zeros(8).requires_grad_()`, `0.02 * torch.randn(8)` behind a name of which `requires_grad` is set."""
    file, node, context = function.file, assigned.value, assigned.context
    asks = _is_asked(function, ast.unparse(assigned.target))
    while True:
        match node:
            case ast.Call(func=ast.Attribute(value=inner, attr="requires_grad_"), args=[], keywords=[]):
                asks, node = True, inner
            case ast.BinOp(left=inner, right=ast.Constant()) | ast.BinOp(left=ast.Constant(), right=inner):
                node = inner
            case ast.Name():
                made, context = source(file, node, context)
                if made is node or _is_handed_on(function, node.id):
                    return None
                asks = asks or _is_asked(function, node.id)
                node = made
            case ast.Call():
                break
            case _:
                return None
    named = file.resolve(node.func, context)
    if not isinstance(named, str) or not named.startswith("torch."):
        return None
    words = {word.arg: word.value for word in node.keywords}
    return Leaf(named.rpartition(".")[2], asks or _is_true(words.get("requires_grad")))


def _is_asked(function: Function, text: str) -> bool:
    """`x.requires_grad = True` and `x.requires_grad_()` as lines of their own."""
    for node in function.nodes:
        match node:
            case ast.Assign(targets=[ast.Attribute(value=owner, attr="requires_grad")], value=value):
                asks = _is_true(value)
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr="requires_grad_"), args=given)):
                asks = not given or _is_true(given[0])
            case _:
                continue
        if asks and ast.unparse(owner) == text:
            return True
    return False


def _is_handed_on(function: Function, name: str) -> bool:
    """Whether the name is given to anybody but `nn.init`, who may keep the tensor."""
    for call in function.all(ast.Call):
        given = [*call.args, *(word.value for word in call.keywords)]
        if any(is_name(arg, name) for arg in given) and not _is_initialising(function, call):
            return True
    lists = (node.elts for node in function.nodes if isinstance(node, ast.List | ast.Tuple))
    return any(isinstance(part.ctx, ast.Load) for parts in lists for part in parts if is_name(part, name))


def _is_initialising(function: Function, call: ast.Call) -> bool:
    named = function.file.resolve(call.func, function.inner)
    return isinstance(named, str) and named.startswith("torch.nn.init.")


def _is_true(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True
