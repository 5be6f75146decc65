"""Losses that are indexed as if they had a dimension: `loss.data[0]`, as it was written before PyTorch 0.4."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.facts import Place
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

_SHAPES = ("reduction", "reduce")


def indexed_losses(sites: Sites) -> Iterator[tuple[str, Place]]:
    """`loss.data[0]`, where `loss` is what losses of the library, averaged or summed, give back, or a sum of them."""
    for file in sites.mentioning([".data[0]"]):
        told = set[ast.AST]()
        for call in file.calls("backward"):
            loss = call.node.func.value if isinstance(call.node.func, ast.Attribute) else None
            if isinstance(loss, ast.Name) and _is_scalar(file, loss, call.context):
                around = call.function.node if call.function is not None else file.module.source.tree
                for node in file.nodes_in(around):
                    if node not in told and _is_first_of(node, loss.id):
                        told.add(node)
                        yield loss.id, file.place(node, call.context)


def _is_first_of(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id=owner), attr="data"), slice=ast.Constant(value=0)):
            return owner == name
    return False


def _is_scalar(file: File, loss: ast.Name, context: Context) -> bool:
    """Whether each thing the name is given is a loss without a dimension, or a number to which such are added."""
    given: list[ast.AST | None] = []
    for binding in file.bindings(loss.id, context):
        if binding.kind == "value":
            given.append(binding.value)
        elif isinstance(binding.node, ast.AugAssign):
            given.append(binding.node.value)
        else:
            return False
    losses = [node for node in given if not isinstance(node, ast.Constant)]
    return bool(losses) and all(_is_loss(file, node, context) for node in losses)


def _is_loss(file: File, node: ast.AST | None, context: Context) -> bool:
    if not isinstance(node, ast.Call) or any(word.arg in _SHAPES or word.arg is None for word in node.keywords):
        return False
    name = file.called(node, context)
    if name.startswith("torch.nn.functional."):
        return name.endswith(("_loss", "cross_entropy", "cross_entropy_with_logits"))
    made = origins(file, node.func, context)
    return bool(made) and all(
        origin.name.startswith("torch.nn.")
        and origin.name.endswith("Loss")
        and isinstance(origin.node, ast.Call)
        and not origin.node.args
        and not any(word.arg in _SHAPES or word.arg is None for word in origin.node.keywords)
        for origin in made
    )
