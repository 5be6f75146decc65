"""`with`: gradient modes, the project's own context managers, and everything else."""

from __future__ import annotations

import ast

from mlcheck.lint.facts import GradMode
from mlcheck.lint.interpret.conditions import truth
from mlcheck.lint.interpret.frames import Exit
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.python import assignment, ways_out
from mlcheck.lint.pytorch import grad_modes, precision
from mlcheck.lint.values import Const, External, Function, Object, Select, Value


def with_statement(m: Machine, node: ast.With | ast.AsyncWith) -> bool:
    return _enter(m, node, 0)


def _enter(m: Machine, node: ast.With | ast.AsyncWith, index: int) -> bool:
    if index == len(node.items):
        return m.execute(node.body)
    item = node.items[index]
    before = m.grad
    value = m.evaluate(item.context_expr)

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
    if isinstance(value, Object) and value.type in grad_modes.SWITCHES:
        return _with_grad(m, grad_modes.of(m, value, item.context_expr), before, inside)
    if isinstance(value, Object) and value.type.endswith(".autocast"):
        return precision.under_autocast(m, value, lambda: bool(inside()))
    if isinstance(value, Object) and value.type == "contextlib.generator":
        return _with_generator(m, value, item, inside)
    if isinstance(value, Object) and value.cls is not None and value.cls.find("__enter__"):
        entered = m.call_method(value, "__enter__", [], {}, item.context_expr)
        if item.optional_vars is not None:
            assignment.assign(m, item.optional_vars, entered)

        def leave() -> bool:
            if value.cls is not None and value.cls.find("__exit__"):
                nothing: list[Value] = [Const(None), Const(None), Const(None)]
                m.call_method(value, "__exit__", nothing, {}, item.context_expr)
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
    if any(isinstance(side, Object) and side.type in grad_modes.SWITCHES for side in sides):
        known = m.assumed(value.key)
        if known is None:
            return GradMode("unknown", m.place(item.context_expr))
        side = value.then if known else value.other
        return (
            grad_modes.of(m, side, item.context_expr)
            if isinstance(side, Object) and side.type in grad_modes.SWITCHES
            else m.grad
        )
    return None


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

    m.follow(function, list(value.args[1:]), value.kwargs, item.context_expr, on_yield=resume)
    for way in left:
        m.leave(way.kind, way.value)
    return not reached or any(reached)
