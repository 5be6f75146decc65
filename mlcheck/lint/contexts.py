"""`with`: gradient modes, the project's own context managers, and everything else."""

from __future__ import annotations

import ast

from mlcheck.lint import assignment, calls, expressions, following, precision, statements, ways_out
from mlcheck.lint.conditions import truth
from mlcheck.lint.facts import GradMode
from mlcheck.lint.machine import Exit, Machine
from mlcheck.lint.values import Const, External, Function, Object, Select, Value

IDLE = frozenset(["torch.no_grad", "torch.inference_mode", "torch.enable_grad"])
GRAD_MODES = IDLE | {"torch.set_grad_enabled"}


def with_statement(m: Machine, node: ast.With | ast.AsyncWith) -> bool:
    return _enter(m, node, 0)


def _enter(m: Machine, node: ast.With | ast.AsyncWith, index: int) -> bool:
    if index == len(node.items):
        return statements.block(m, node.body)
    item = node.items[index]
    before = m.grad
    value = expressions.evaluate(m, item.context_expr)

    def inside() -> bool:
        return _enter(m, node, index + 1)

    return _within(m, value, item, inside, before)


def _within(m: Machine, value: Value, item: ast.withitem, inside: object, before: GradMode) -> bool:
    assert callable(inside)
    if isinstance(value, Select):
        _known, _ = truth(m, value)
        mode = _select_mode(m, value, item)
        if mode is not None:
            return _with_grad(m, mode, before, inside)
        value = value.then
    if isinstance(value, Object) and value.type in GRAD_MODES:
        return _with_grad(m, grad_mode(m, value, item.context_expr), before, inside)
    if isinstance(value, Object) and value.type.endswith(".autocast"):
        return precision.under_autocast(m, value, lambda: bool(inside()))
    if isinstance(value, Object) and value.type == "contextlib.generator":
        return _with_generator(m, value, item, inside)
    if isinstance(value, Object) and value.cls is not None and value.cls.find("__enter__"):
        entered = calls.call_method(m, value, "__enter__", [], {}, item.context_expr)
        if item.optional_vars is not None:
            assignment.assign(m, item.optional_vars, entered)

        def leave() -> bool:
            if value.cls is not None and value.cls.find("__exit__"):
                nothing: list[Value] = [Const(None), Const(None), Const(None)]
                calls.call_method(m, value, "__exit__", nothing, {}, item.context_expr)
            return True

        return ways_out.protect(m, inside, leave)
    if item.optional_vars is not None:
        assignment.assign(m, item.optional_vars, value if not isinstance(value, External) else m.symbol())
    return bool(inside())


def _with_grad(m: Machine, mode: GradMode, before: GradMode, inside: object) -> bool:
    assert callable(inside)

    def run() -> bool:
        m.store.set(("grad",), mode)
        return bool(inside())

    def leave() -> bool:
        m.store.set(("grad",), before)
        return True

    return ways_out.protect(m, run, leave)


def _select_mode(m: Machine, value: Select, item: ast.withitem) -> GradMode | None:
    """A choice between gradient modes, or between one and nothing: unknown."""
    sides = [value.then, value.other]
    if any(isinstance(side, Object) and side.type in GRAD_MODES for side in sides):
        known = m.assumed(value.key)
        if known is None:
            return GradMode("unknown", m.place(item.context_expr))
        side = value.then if known else value.other
        return grad_mode(m, side, item.context_expr) if isinstance(side, Object) and side.type in GRAD_MODES else m.grad
    return None


def grad_mode(m: Machine, value: Object, node: ast.AST) -> GradMode:
    """The gradient mode this context manager (or call of set_grad_enabled) switches to."""
    place = value.place or m.place(node)
    if value.type == "torch.enable_grad":
        return GradMode("on", place)
    if value.type == "torch.no_grad":
        return GradMode("off", place)
    argument = value.args[0] if value.args else value.kwargs.get("mode", Const(True))
    known, _ = truth(m, argument)
    if known is None:
        return GradMode("unknown", place)
    enabled = known if value.type == "torch.set_grad_enabled" else not known
    return GradMode("on" if enabled else "off", place)


def _with_generator(m: Machine, value: Object, item: ast.withitem, inside: object) -> bool:
    """`with` over a project generator: the body runs where the generator yields."""
    assert callable(inside)
    function = value.args[0]
    if not isinstance(function, Function):
        return bool(inside())
    outer = len(m.frames)
    left: list[Exit] = []
    reached: list[bool] = []

    def resume(yielded: Value) -> Value:
        generator = m.frames[outer:]
        del m.frames[outer:]
        if item.optional_vars is not None:
            assignment.assign(m, item.optional_vars, yielded)
        normal, exits = m.capture(lambda: bool(inside()))
        ends = [way.delta for way in exits] + ([normal] if normal is not None else [])
        left.extend(exits)
        reached.append(normal is not None)
        if ends:
            m.merge(ends)
        m.frames.extend(generator)
        return m.symbol()

    following.follow(m, function, list(value.args[1:]), value.kwargs, item.context_expr, on_yield=resume)
    for way in left:
        m.leave(way.kind, way.value)
    return not reached or any(reached)
