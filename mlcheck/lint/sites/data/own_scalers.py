"""Scalers that a project wrote itself: `Scaler(mean, std).transform(x)`, which is `(x - mean) / std`."""

from __future__ import annotations

import ast

from mlcheck.lint.sites.data.lineage import Passed
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.origins import returns


def standardised(passed: Passed) -> tuple[ast.expr, ast.expr, ast.expr] | None:
    """The rows, what is subtracted from them and what they are divided by, written out or by a method."""
    match passed.node:
        case ast.BinOp(left=ast.BinOp(left=data, op=ast.Sub(), right=middle), op=ast.Div(), right=scale):
            return data, middle, _without_epsilon(scale)
        case ast.Call(func=ast.Attribute(value=owner, attr=name), args=[data]) if isinstance(owner, ast.Name):
            given = _given(passed, source(passed.file, owner, passed.context)[0], name)
            return (data, *given) if given is not None else None
    return None


def _without_epsilon(scale: ast.expr) -> ast.expr:
    return scale.left if isinstance(scale, ast.BinOp) and isinstance(scale.op, ast.Add) else scale


def _given(passed: Passed, made: ast.expr, name: str) -> tuple[ast.expr, ast.expr] | None:
    """What the maker of a scaler is given for the numbers that its method of this name shifts and divides by."""
    cls = passed.file.resolve(made.func, passed.context) if isinstance(made, ast.Call) else None
    method = cls.find(name) if isinstance(cls, Class) else None
    if not isinstance(cls, Class) or method is None or not isinstance(made, ast.Call):
        return None
    match list(returns(method)):
        case [ast.BinOp(left=ast.BinOp(left=ast.Name(id=rows), op=ast.Sub(), right=middle), op=ast.Div(), right=scale)]:
            if rows != method.receiver and rows in method.parameters:
                call = Call(passed.file, made, passed.context)
                numbers = [_passed_in(cls, method, part, call) for part in (middle, _without_epsilon(scale))]
                if numbers[0] is not None and numbers[1] is not None:
                    return numbers[0], numbers[1]
    return None


def _passed_in(cls: Class, method: Function, node: ast.expr, call: Call) -> ast.expr | None:
    """The argument that the constructor keeps as `self.mean`."""
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name) or node.value.id != method.receiver:
        return None
    kept = [pair for pair in cls.attribute(node.attr) if pair[0].name == "__init__"]
    value = kept[0][1].value if len(kept) == 1 else None
    names = list(kept[0][0].parameters) if kept else []
    if not isinstance(value, ast.Name) or value.id not in names:
        return None
    return call.argument(value.id, names.index(value.id) - 1)
