"""The project's own functions, run with the arguments of a call."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable

from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import GradMode
from mlcheck.lint.interpret import habits
from mlcheck.lint.interpret.effort import MAX_DEPTH, Abandoned
from mlcheck.lint.interpret.frames import DeadPath, Frame, Sink
from mlcheck.lint.interpret.joins import join_values
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.interpret.store import LOCAL
from mlcheck.lint.program import FunctionInfo
from mlcheck.lint.python import binding
from mlcheck.lint.pytorch import gradients, graph, modes, relaxing
from mlcheck.lint.values import (
    NONE,
    TRUE,
    Args,
    Function,
    Kwargs,
    Object,
    Symbol,
    Tuple,
    Value,
    split_of,
    split_of_name,
    traces_of,
)

_CLEARS = pattern(r"zero_grad|\.grad\b")


def follow(
    m: Machine,
    function: Function,
    args: Args,
    kwargs: Kwargs,
    node: ast.AST,
    on_yield: Callable[[Value], Value] | None = None,
) -> Value:
    """Follow a project function with these arguments; beyond the depth bound its result is unknown."""
    info = function.info
    m.visited.add(info.node)
    if info.generator and on_yield is None:
        return Object("builtins.generator", m.fresh(), None, (function, *args), kwargs)
    if len(m.frames) >= MAX_DEPTH or info.abstract or habits.is_abandoned(m, info) or _recurs(m, function):
        return _given_up(m, function, args, kwargs, node)
    if on_yield is None and not m.relevance.to_follow(info) and habits.all_dull(m, function, args, kwargs):
        values = [*args, *kwargs.values()]
        return Symbol(m.fresh(), "", split_of(*values), traces_of(*values))
    if on_yield is None and (known := habits.spared(m, function, args, kwargs)) is not None:
        return known
    grad, mark, facts, first = m.grad, m.store.mark(), m.facts.total(), m.fresh()
    scope = ("call", m.fresh())
    frame = Frame(info.module, scope, Sink(mark), m.fresh(), info, function.bound, on_yield, m.effort.steps, node)
    m.parents[frame.scope] = function.scope
    depth, loops = len(m.frames), len(m.loops)
    m.frames.append(frame)
    try:
        if function.grad:
            m.store.set(("grad",), GradMode(function.grad, function.place))
        binding.bind(m, function, args, kwargs)
        result = _run(m, info)
        if function.grad:
            m.store.set(("grad",), grad)
    except Abandoned as abandoned:
        if abandoned.frame is not frame:
            raise
        del m.loops[loops:]
        m.store.undo(mark)
        habits.abandon(m, info)
        return _given_up(m, function, args, kwargs, node)
    finally:
        del m.frames[depth:]
    if frame.scope not in m.closed_over:
        m.store.drop(mark, frame.scope)
    if on_yield is None:
        habits.learn(m, function, args, mark, facts, first, result)
        if facts == m.facts.total():
            habits.tire(m, info, frame.steps - m.effort.steps)
    return result


def _recurs(m: Machine, function: Function) -> bool:
    """Whether it is running already: by itself, on the same object, or several times on others."""
    running = [frame for frame in m.frames if frame.info is not None and frame.info.node is function.info.node]
    if len(running) > 2:
        return True
    return any(frame.bound is function.bound and m.parents.get(frame.scope) == function.scope for frame in running)


def _given_up(m: Machine, function: Function, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """The result of a call that is not followed, after anything it may have done to what it was given.

    A module's own `train` is known to switch its mode.
    """
    info, values = function.info, [*args, *kwargs.values()]
    if info.name == "train" and isinstance(function.bound, Object) and modes.is_module(function.bound):
        modes.set_mode(m, function.bound, args[0] if args else kwargs.get("mode", TRUE), m.place(node))
    m.havoc(values)
    text = info.module.text_of(info.node)
    if ("zero_grad" in text or ".grad" in text) and _CLEARS.search(text):
        gradients.zero_anything(m, node)
    return Symbol(m.fresh(), "", split_of(*values), graph.opaque(m, traces_of(*values)))


def _run(m: Machine, info: FunctionInfo) -> Value:
    node = info.node
    if isinstance(node, ast.Lambda):
        return m.evaluate(node.body)
    if info.straight:
        return _run_straight(m, node.body)
    normal, exits = m.capture(lambda: m.execute(node.body))
    ways: list[tuple[Value, object]] = [(way.value or NONE, way.delta) for way in exits if way.kind == "return"]
    deltas = [way.delta for way in exits if way.kind == "return"]
    values: list[Value] = [value for value, _ in ways]
    if normal is not None:
        deltas.append(normal)
        values.append(NONE)
    if not deltas:
        raise DeadPath
    if len(deltas) > 1:
        shared, scope = _told_apart(deltas), m.frame.scope
        kept = scope in m.closed_over
        deltas = [
            {
                cell: value
                for cell, value in delta.items()
                if cell[0] != "if" and (kept or cell[0] not in LOCAL or cell[1] != scope)
            }
            for delta in deltas
        ]
        if shared is not None:
            relaxing.relax(m, deltas, shared)
        m.merge(deltas, shared)
        return join_values(m, values, shared)
    m.merge(deltas)
    return values[0]


def _run_straight(m: Machine, body: list[ast.stmt]) -> Value:
    last = body[-1]
    returned = isinstance(last, ast.Return)
    if not m.execute(body[:-1] if returned else body):
        raise DeadPath
    return m.evaluate(last.value) if isinstance(last, ast.Return) else NONE


def _told_apart(deltas: list[dict[tuple[Hashable, ...], object]]) -> Hashable:
    """The condition that one of two ways took for true and the other for false."""
    if len(deltas) == 2:
        for cell, value in deltas[0].items():
            if cell[0] == "if" and value is True and deltas[1].get(cell) is False:
                return cell[1]
            if cell[0] == "if" and value is False and deltas[1].get(cell) is True:
                return ("not", cell[1])
    return None


def run_generator(m: Machine, made: Object) -> Value:
    """What a project generator yields, run once through."""
    yielded: list[Value] = []

    def resume(value: Value) -> Value:
        yielded.append(value)
        return m.symbol()

    function = made.args[0]
    if isinstance(function, Function):
        try:
            follow(m, function, list(made.args[1:]), made.kwargs, function.info.node, on_yield=resume)
        except DeadPath:
            pass
        if yielded:
            return join_values(m, yielded, None) if not isinstance(yielded[0], Tuple) else yielded[0]
        return Symbol(m.fresh(), "", split_of_name(function.info.name))
    return m.symbol()
