"""Weights that are loaded and lost: into a dictionary that nobody holds, or into a model that is replaced."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.nodes import before_methods, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.layers.modules import makes_module
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

_RETURN_SELF = ("eval", "train", "to", "cuda", "cpu", "half", "float", "double", "requires_grad_")
_BLOCKS = ("body", "orelse", "finalbody")


def lost(sites: Sites) -> Iterator[Finding]:
    for file in sites.mentioning([".state_dict()"]):
        yield from _into_nothing(file)
    for file in sites.mentioning(["load_state_dict("]):
        for call in file.calls("load_state_dict"):
            yield from _into_former(call)


def _into_nothing(file: File) -> Iterator[Finding]:
    """`model.state_dict().update(weights)`, `model.state_dict()[key] = weight`."""
    found: list[tuple[ast.expr, ast.AST, Context]] = [
        (call.node.func.value, call.node, call.context)
        for call in file.calls("update")
        if call.node in file.statements and isinstance(call.node.func, ast.Attribute)
    ]
    found += [
        (node.value, node, context)
        for node, context in file.walk.subscripts
        if isinstance(node.ctx, ast.Store) and ".state_dict()[" in file.text and not _is_added_to(context, node)
    ]
    for state, node, context in found:
        match state:
            case ast.Call(func=ast.Attribute(value=owner, attr="state_dict"), args=[], keywords=[]):
                model = ast.unparse(owner)
                if isinstance(node, ast.Call) and _is_loaded_after(Call(file, node, context), model):
                    continue
                yield Finding(
                    f"`{model}.state_dict()` makes a new dictionary: what is put into it here, `{model}` never takes",
                    file.place(node, context).location,
                    help=f"`{model}.load_state_dict(...)`",
                )


def _is_loaded_after(update: Call, model: str) -> bool:
    """`model.load_state_dict(weights)` behind `model.state_dict().update(weights)`, which then only does nothing."""
    given = [ast.unparse(arg) for arg in update.node.args[:1]]
    loads = [f"{model}.load_state_dict({weights}" for weights in given]
    return any(ast.unparse(line).startswith(tuple(loads)) for line in _behind(update))


def _is_added_to(context: Context, target: ast.Subscript) -> bool:
    """`model.state_dict()[key] += change`, which writes into the model's own tensor."""
    return any(isinstance(node, ast.AugAssign) and node.target is target for node in walk(context.node))


def _into_former(call: Call) -> Iterator[Finding]:
    """`model.load_state_dict(weights)`, and `model = Net()` before anybody has used the model."""
    func = call.node.func
    if not isinstance(func, ast.Attribute) or not isinstance(func.value, ast.Name | ast.Attribute):
        return
    model = ast.unparse(func.value)
    if _is_shared(call, model):
        return
    behind = _behind(call)
    for number, line in enumerate(behind):
        if isinstance(line, ast.Assign) and [ast.unparse(target) for target in line.targets] == [model]:
            made = before_methods(line.value, _RETURN_SELF)
            again = any(f"{model}.load_state_dict(" in ast.unparse(later) for later in behind[number + 1 :])
            if makes_module(call.file, made, call.context) and not _reads(line.value, model) and not again:
                yield Finding(
                    f"A new `{model}` replaces the one that the weights were loaded into, which nobody has used",
                    call.file.place(line, call.context).location,
                    help="make the model first, and load the weights into that",
                    related=(call.place.location,),
                )
            return
        if any(_reads(node, model) and not _moves(line, model) for node in walk(line)):
            return


def _nodes(call: Call) -> list[ast.AST]:
    return call.function.nodes if call.function is not None else walk(call.file.module.source.tree)


def _is_shared(call: Call, model: str) -> bool:
    """Whether somebody else may hold the model by now: all that is done with it above is to call its methods."""
    nodes = _nodes(call)
    owners = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    return any(
        isinstance(node, ast.Name | ast.Attribute)
        and isinstance(node.ctx, ast.Load)
        and node.lineno < call.node.lineno
        and id(node) not in owners
        and ast.unparse(node) == model
        for node in nodes
    )


def _behind(call: Call) -> list[ast.stmt]:
    """The statements behind the call in its own block."""
    for node in _nodes(call):
        for name in _BLOCKS:
            block = getattr(node, name, None)
            for number, line in enumerate(block if isinstance(block, list) else ()):
                if isinstance(line, ast.Expr) and line.value is call.node:
                    return list(block[number + 1 :]) if isinstance(block, list) else []
    return []


def _reads(node: ast.AST, model: str) -> bool:
    return any(isinstance(part, ast.Name | ast.Attribute) and ast.unparse(part) == model for part in walk(node))


def _moves(line: ast.stmt, model: str) -> bool:
    """`model.eval()`, `model.to(device)`: statements that use the model for nothing."""
    made = before_methods(line.value, _RETURN_SELF) if isinstance(line, ast.Expr) else None
    return made is not None and ast.unparse(made) == model
