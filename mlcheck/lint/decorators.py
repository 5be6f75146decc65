"""What a library's decorator leaves of a function."""

from __future__ import annotations

import ast

from mlcheck.lint import contexts
from mlcheck.lint.facts import Place
from mlcheck.lint.machine import Machine
from mlcheck.lint.values import Class, Function, Object, Partial, Value


def decorate(m: Machine, name: str, decorator: Value, function: Value, node: ast.expr, owner: Value | None) -> Value:
    """A function under a library's decorator."""
    place: Place = m.place(node)
    if name in contexts.IDLE:
        made = decorator if isinstance(decorator, Object) else Object(name, m.fresh(), place=place)
        mode = contexts.grad_mode(m, made, node).kind
        return _with_grad(function, mode, place)
    if name == "builtins.staticmethod" and isinstance(function, Function):
        return Function(function.info, function.scope, None, function.grad, function.place, True)
    if name == "builtins.classmethod" and isinstance(function, Function):
        bound = Class(owner.cls) if isinstance(owner, Object) and owner.cls else owner
        return Function(function.info, function.scope, bound, function.grad, function.place)
    if name in ("builtins.property", "functools.cached_property", "torch.jit.unused"):
        return Object("builtins.property", m.fresh(), None, (function,)) if "property" in name else function
    if name == "contextlib.contextmanager":
        return Object("contextlib.contextmanager", m.fresh(), None, (function,))
    return function


def _with_grad(function: Value, mode: str, place: Place) -> Value:
    if isinstance(function, Function):
        if function.grad:
            return function
        return Function(function.info, function.scope, function.bound, mode, place, function.static)
    if isinstance(function, Partial):
        return Partial(_with_grad(function.function, mode, place), function.args, function.kwargs)
    return function
