"""A function that scales what it is given by its own statistics, called for training data and for held-out data."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.nodes import is_none, last_name
from mlcheck.lint.sites.data.own_scale import OwnScale, scaled_by
from mlcheck.lint.sites.model import OPEN, Call, Function
from mlcheck.lint.sites.origins import callers
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.values import split_of_name


def scaled_in_helpers(sites: Sites) -> Iterator[OwnScale]:
    """`standardise(train)` and `standardise(test)`, where the second should be given what the first has found."""
    for file in sites.mentioning([".std(", ".max(", "np.std", "np.max"]):
        for function in file.functions:
            if not any(word in function.text for word in ("std(", "max(")) or "/" not in function.text:
                continue
            formulas = [node for node in function.all(ast.BinOp) if _divides(node)]
            if not formulas or function.node.decorator_list:
                continue
            found: dict[str, list[tuple[str, Call]]] = {}
            for call in callers(sites, function):
                for name in {_scaled_name(function, call, node) for node in formulas}:
                    found.setdefault(split_of_name(name), []).append((name, call))
            if "train" in found:
                training = found["train"][0][1]
                for name, call in (*found.get("val", ()), *found.get("test", ())):
                    if call.function is training.function:
                        yield OwnScale(name, call.place, training.place)


def _divides(node: ast.BinOp) -> bool:
    return isinstance(node.op, ast.Div) and isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.Sub)


def _scaled_name(function: Function, call: Call, formula: ast.BinOp) -> str:
    """The name of what the call hands over for the parameter that is scaled by its own statistics; "" if none is."""
    left = formula.left
    data = left.left if isinstance(left, ast.BinOp) else left
    if not isinstance(data, ast.Name) or data.id not in function.parameters or not isinstance(left, ast.BinOp):
        return ""
    if len(function.file.bindings(data.id, function.inner)) != 1:
        return ""
    middle = _computed(function, call, left.right)
    scale = formula.right
    if isinstance(scale, ast.BinOp) and isinstance(scale.op, ast.Add):
        scale = scale.left
    scale = _in_full(function, call, scale)
    if middle is None or scaled_by(data, middle, scale) is None:
        return ""
    given = call.argument(data.id, list(function.parameters).index(data.id) - bool(function.receiver))
    return last_name(given) if isinstance(given, ast.Name | ast.Attribute) else ""


def _in_full(function: Function, call: Call, node: ast.expr) -> ast.expr:
    """`x.std(0)` of `std`, and `x.max(0) - x.min(0)` of `high - low`; what is not known stands as it is."""
    if isinstance(node, ast.BinOp):
        return ast.BinOp(_in_full(function, call, node.left), node.op, _in_full(function, call, node.right))
    return _computed(function, call, node) or node


def _computed(function: Function, call: Call, node: ast.expr) -> ast.expr | None:
    """The expression that a name stands for in this call, where one alone is possible."""
    if not isinstance(node, ast.Name):
        return node
    values = []
    for bound in function.file.bindings(node.id, function.inner):
        if bound.kind == "param":
            if not _is_left_at_none(function, call, node.id):
                return None
        elif bound.kind == "value" and isinstance(bound.value, ast.expr):
            values.append(bound.value)
        elif bound.kind == "item" and isinstance(bound.value, ast.Name | ast.Tuple):
            made = _computed(function, call, bound.value)
            parts = made.elts if isinstance(made, ast.Tuple) else []
            values += parts[bound.item : bound.item + 1] or [node]
        else:
            return None
    return values[0] if len(values) == 1 else None


def _is_left_at_none(function: Function, call: Call, name: str) -> bool:
    """Whether the parameter is None unless it is given, and this call gives nothing or None."""
    default = function.parameters.get(name)
    given = call.argument(name, list(function.parameters).index(name) - bool(function.receiver))
    return default is not None and is_none(default) and (given is None or (given is not OPEN and is_none(given)))
