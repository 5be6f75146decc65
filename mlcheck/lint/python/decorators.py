"""What decorators leave of a function."""

from __future__ import annotations

import ast

from mlcheck.lint.facts import Place
from mlcheck.lint.interpret.frames import Frame, Sink
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.program import FunctionInfo
from mlcheck.lint.pytorch import grad_modes
from mlcheck.lint.values import Class, External, Function, Object, Partial, Value


def decorated(m: Machine, value: Function, info: FunctionInfo, owner: Value | None) -> Value:
    """The function as its decorators leave it."""
    node = info.node
    result: Value = value
    if isinstance(node, ast.Lambda):
        return value
    for decorator in reversed(node.decorator_list):
        if isinstance(decorator, ast.Attribute) and decorator.attr in ("setter", "deleter", "getter"):
            continue
        m.frames.append(Frame(info.module, value.scope, Sink(m.store.mark()), m.frame.call))
        before = m.store.get(("grad",))
        try:
            applied = m.evaluate(decorator)
            if m.store.get(("grad",)) != before:  # `@torch.set_grad_enabled(False)` puts it back itself
                m.store.set(("grad",), before)
            result = _decorate(m, applied, result, decorator, owner)
        finally:
            m.frames.pop()
    return result


def _decorate(m: Machine, decorator: Value, function: Value, node: ast.expr, owner: Value | None) -> Value:
    if isinstance(decorator, External | Object):
        name = decorator.name if isinstance(decorator, External) else decorator.type
        return _of_library(m, name, decorator, function, node, owner)
    if isinstance(decorator, Function | Partial):
        bound = function.bound if isinstance(function, Function) else None
        plain = function
        if isinstance(function, Function) and bound is not None and not function.static:
            plain = Function(function.info, function.scope, None, function.grad, function.place)
        made = m.call(decorator, [plain], {}, node)
        if bound is not None and isinstance(made, Function):
            return Partial(made, (bound,), {}) if made.bound is None else made
        if isinstance(made, Function | Partial | Object):
            return made
        return _with_grad(function, "unknown", m.place(node)) if _speaks_of_gradients(m, decorator) else function
    if isinstance(function, Function) and not _leaves_gradients(m, node):
        return Function(function.info, function.scope, function.bound, "unknown", function.place, function.static)
    return function


def _speaks_of_gradients(m: Machine, decorator: Function | Partial) -> bool:
    """`return (torch.inference_mode if NEW else torch.no_grad)()(function)`, in a decorator of the project's own."""
    if isinstance(decorator, Partial):
        return isinstance(decorator.function, Function | Partial) and _speaks_of_gradients(m, decorator.function)
    return m.facts.sites.once_of(_names_a_switch, decorator.info.node)


def _names_a_switch(code: ast.AST) -> bool:
    return any(map(_may_switch, map(last_name, walk(code))))


def _leaves_gradients(m: Machine, node: ast.expr) -> bool:
    """`@hydra.main(...)`, `@app.command()`: what a library made it of has nothing to do with gradients by its name."""
    maker = node.func if isinstance(node, ast.Call) else node
    made = m.evaluate(maker)
    owner = m.evaluate(maker.value) if isinstance(maker, ast.Attribute) and not isinstance(made, External) else made
    name = owner.name if isinstance(owner, External) else ""
    if isinstance(owner, Object) and owner.cls is None:
        name = owner.type
    return bool(name) and not _may_switch(name)


def _may_switch(name: str) -> bool:
    """Whether a library's decorator may switch gradients off, as far as its name tells."""
    return any(word in name.lower() for word in ("grad", "inference", "torch", "paddle"))


def _of_library(m: Machine, name: str, decorator: Value, function: Value, node: ast.expr, owner: Value | None) -> Value:
    """A function under a library's decorator."""
    place: Place = m.place(node)
    if name in grad_modes.SWITCHES:
        made = decorator if isinstance(decorator, Object) else Object(name, m.fresh(), place=place)
        mode = grad_modes.of(m, made, node).kind
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
    return _with_grad(function, "unknown", place) if "grad" in name.rpartition(".")[2].lower() else function


def _with_grad(function: Value, mode: str, place: Place) -> Value:
    if isinstance(function, Function):
        if function.grad:
            return function
        return Function(function.info, function.scope, function.bound, mode, place, function.static)
    if isinstance(function, Partial):
        return Partial(_with_grad(function.function, mode, place), function.args, function.kwargs)
    return function
