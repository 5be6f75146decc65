"""Layers that a function puts into a model it is given: adapters, and what stands in the place of other layers."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.nodes import last_name, loads, stores
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.modules import holds_parameters
from mlcheck.lint.sites.optimizers import following

_LIBRARIES = ("peft.get_peft_model", "peft.inject_adapter_in_model", "opacus.validators.ModuleValidator.fix")


def injected(made: Call, model: str, optimizer: str) -> Iterator[ast.Call]:
    """`model = add_adapters(model)` beneath the optimizer of that model, which then steps without them."""
    found: ast.Call | None = None
    for statement in following(made):
        value = statement.value if isinstance(statement, ast.Assign | ast.Expr) else None
        if stores(statement, optimizer) or "add_param_group" in made.file.module.text_of(statement):
            return
        if isinstance(value, ast.Call) and any(last_name(arg) == model for arg in value.args):
            found = found or (value if _puts_layers_in(Call(made.file, value, made.context), model) else None)
        elif found is None and stores(statement, model):
            return
        if found is not None and loads(statement, optimizer):
            yield found
            return


def _puts_layers_in(call: Call, model: str) -> bool:
    named = call.file.resolve(call.node.func, call.context)
    if not isinstance(named, Function):
        return named in _LIBRARIES
    position = next(index for index, arg in enumerate(call.node.args) if last_name(arg) == model)
    parameters = list(named.parameters)
    return position < len(parameters) and any(
        isinstance(node, ast.Call)
        and last_name(node.func) == "setattr"
        and len(node.args) == 3
        and last_name(node.args[0]) == parameters[position]
        and holds_parameters(named.file, node.args[2], named.inner)
        for node in named.nodes
    )
