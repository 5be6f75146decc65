"""Layers that a function puts into a model it is given: adapters, and what stands in the place of other layers."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.nodes import before_methods, is_name, last_name, loads, stores, walk
from mlcheck.lint.sites.layers.modules import holds_parameters
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.training.optimizers import following

_COPY = "copy.deepcopy"
_MOVES = ("to", "cuda", "cpu", "float", "train", "eval")
_LIBRARIES = ("peft.get_peft_model", "peft.inject_adapter_in_model", "opacus.validators.ModuleValidator.fix")


def injected(made: Call, model: str, optimizer: str) -> Iterator[ast.Call]:
    """`model = add_adapters(model)` beneath the optimizer of that model, which then steps without them.

    A copy in the place of the model counts where the optimizer has not stepped yet.
    """
    found: ast.Call | None = None
    copies = _COPY.rpartition(".")[2] in made.file.text
    used = False
    for statement in following(made):
        value = statement.value if isinstance(statement, ast.Assign | ast.Expr) else None
        text = made.file.module.text_of(statement)
        if (optimizer in text and stores(statement, optimizer)) or "add_param_group" in text:
            return
        value = before_methods(value, _MOVES) if value is not None and _is_bound(statement, model) else value
        if isinstance(value, ast.Call) and any(last_name(arg) == model for arg in value.args):
            call = Call(made.file, value, made.context)
            copied = _is_bound(statement, model) and not used and made.file.called(value, made.context) == _COPY
            found = found or (value if copied or _puts_layers_in(call, model) else None)
        elif found is None and model in text and stores(statement, model):
            return
        if found is not None and _steps(statement, optimizer):
            yield found
            return
        used = used or (copies and loads(statement, optimizer))


def _steps(statement: ast.stmt, optimizer: str) -> bool:
    """Whether the optimizer is used, and not only asked for its state."""
    saved = {
        id(node.value)
        for node in walk(statement)
        if isinstance(node, ast.Attribute) and node.attr in ("state_dict", "param_groups")
    }
    return any(is_name(n, optimizer) and id(n) not in saved for n in walk(statement))


def _is_bound(statement: ast.stmt, model: str) -> bool:
    """`model = ...`."""
    return isinstance(statement, ast.Assign) and [last_name(target) for target in statement.targets] == [model]


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
