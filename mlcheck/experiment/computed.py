"""Which hyperparameters a trial computes with as they are."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.experiment.trial_code import Module, TrialCode, imports_of, is_get_hparam, literal_name
from mlcheck.lint.nodes import own_nodes

_TAKES_NUMBERS = ("torch.nn.", "torch.optim.")  # and names, as of an activation, but none that looks like a number


def computed_with(code: TrialCode) -> set[str]:
    """Hyperparameters that go into layers, optimizers, or arithmetic, unconverted: a text ends the run there."""
    return {name for module, owner in code.bases for name in _computed_with(module, owner)}


def _computed_with(module: Module, owner: ast.ClassDef) -> Iterator[str]:
    bound = {alias.split(".")[0]: _written_out(source, name, alias) for source, name, alias in imports_of(module)}
    for method in (node for node in owner.body if isinstance(node, ast.FunctionDef)):
        named = _hyperparameters_by_name(method)
        for node in own_nodes(method):
            used: list[ast.expr] = []
            if isinstance(node, ast.Call) and _called(node, bound).startswith(_TAKES_NUMBERS):
                used = [*node.args, *(keyword.value for keyword in node.keywords)]
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div | ast.Sub | ast.Pow):
                used = [node.left, node.right]
            for value in used:
                name = literal_name(value) if is_get_hparam(value) else ""
                name = named.get(value.id, "") if isinstance(value, ast.Name) else name
                if name:
                    yield name


def _written_out(source: str, name: str, alias: str) -> str:
    return f"{source}.{name}" if name else alias.split(".")[0] if alias == source else source


def _called(call: ast.Call, bound: dict[str, str]) -> str:
    first, dot, rest = ast.unparse(call.func).partition(".")
    return f"{bound.get(first, first)}{dot}{rest}"


def _hyperparameters_by_name(method: ast.FunctionDef) -> dict[str, str]:
    """`width = context.get_hparam("width")`, where the variable has no other value."""
    stored = [n.id for n in own_nodes(method) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return {
        node.targets[0].id: literal_name(node.value)
        for node in own_nodes(method)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and is_get_hparam(node.value)
        and stored.count(node.targets[0].id) == 1
    }
