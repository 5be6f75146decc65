"""Calls: project functions followed with their arguments, classes made, everything else handed on."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable

from mlcheck.lint import (
    attributes,
    containers,
    decorators,
    expressions,
    gradients,
    graph,
    habits,
    instances,
    libraries,
    methods,
    modes,
    modules,
    statements,
    strangers,
)
from mlcheck.lint.effort import MAX_DEPTH, Abandoned
from mlcheck.lint.facts import Bypass, GradMode
from mlcheck.lint.joins import join_values
from mlcheck.lint.machine import DeadPath, Frame, Machine, Sink
from mlcheck.lint.program import FunctionInfo
from mlcheck.lint.store import LOCAL
from mlcheck.lint.values import (
    NONE,
    Class,
    Const,
    External,
    Function,
    Method,
    Object,
    Partial,
    Select,
    Super,
    Symbol,
    Table,
    Tuple,
    Value,
    owner_key,
    split_of,
    split_of_name,
    traces_of,
)

Args = list[Value]
Kwargs = dict[str, Value]


def call(m: Machine, function: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Call any value."""
    match function:
        case Function():
            return call_function(m, function, args, kwargs, node)
        case Class(info=info):
            return instances.instantiate(m, info, args, kwargs, node)
        case Object():
            return _call_object(m, function, args, kwargs, node)
        case External(name=name):
            return libraries.call(m, name, args, kwargs, node)
        case Method(owner=owner, name=name, after=after):
            if after is not None:
                return methods.call(m, owner, name, args, kwargs, node)
            return call_method(m, owner, name, args, kwargs, node)
        case Partial():
            return call(m, function.function, [*function.args, *args], {**function.kwargs, **kwargs}, node)
        case Select():
            return _each(m, function, lambda side: call(m, side, args, kwargs, node))
        case Symbol():
            return unknown(m, function, args, kwargs, node)
        case Super():
            return m.symbol()
    return Symbol(m.fresh(), "", split_of(*args), traces_of(*args))


def _each(m: Machine, value: Select, use: Callable[[Value], Value]) -> Value:
    """Do it for each side that can be used at all: None cannot.

    Two objects are two pieces of state: each meets the call as if it were the one in use.
    """
    for side, rest in ((value.then, value.other), (value.other, value.then)):
        if isinstance(side, Const) and side.value is None:
            return use(rest)
    known = m.assumed(value.key)
    if known is not None:
        return use(value.then if known else value.other)
    if not all(isinstance(side, Object | Symbol | Select) for side in (value.then, value.other)):
        return m.branch(value.key, lambda: use(value.then), lambda: use(value.other))
    results = []
    for side, holds in ((value.then, True), (value.other, False)):
        m.assume(value.key, holds)
        try:
            results.append(use(side))
        finally:
            m.forget(value.key)
    return join_values(m, results, value.key)


def call_method(m: Machine, owner: Value, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`owner.name(...)`: the project's own method where there is one, else what the library's does."""
    if isinstance(owner, Select):
        return _each(m, owner, lambda side: call_method(m, side, name, args, kwargs, node))
    if name == "forward" and owner is not m.frame.bound and isinstance(node, ast.Call):
        if modes.is_module(owner) or modes.known_as_module(m, owner):
            called = m.store.get(("name", owner_key(owner))) or getattr(owner, "name", "") or "model"
            m.facts.bypasses.append(Bypass(m.place(node), called))
    if isinstance(owner, Object | Symbol):
        if isinstance(owner, Object) and name not in modes.OUTSIDE:
            instances.ready(m, owner)
        stored: Value | None = m.store.get(("a", owner.id if isinstance(owner, Object) else owner.key, name))
        if stored is not None:
            return call(m, stored, args, kwargs, node)
    if isinstance(owner, Object) and owner.cls is not None:
        info = owner.cls.find(name)
        if info is not None:
            method = attributes.bind_method(m, info, owner, node)
            if modules.is_entered(m, owner, info, name):
                return modules.within(m, owner, lambda: call(m, method, args, kwargs, node), args, kwargs, node)
            return call(m, method, args, kwargs, node)
        if any(name in base.assigned for base in owner.cls.mro):
            return call(m, attributes.get(m, owner, name, node), args, kwargs, node)
    return methods.call(m, owner, name, args, kwargs, node)


def unknown(m: Machine, function: Symbol, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """A call of something not known: a module where its use says so; else its effects are anyone's guess."""
    values = [*args, *kwargs.values()]
    if modes.is_module(function) or modes.known_as_module(m, function):
        return modules.call_unknown(m, function, args, kwargs, node)
    havoc(m, values)
    return Symbol(("called", m.fresh()), "", split_of(*values), graph.opaque(m, traces_of(*values, function)))


def havoc(m: Machine, values: list[Value]) -> None:
    """Objects handed to code that is not known may come back in any state."""
    for value in values:
        if isinstance(value, Tuple):
            havoc(m, list(value.items))
        elif isinstance(value, Table):
            havoc(m, list(value.items.values()))
        elif isinstance(value, Select):
            havoc(m, [value.then, value.other])
        elif isinstance(value, Object) and m.store.get(("items", value.id)) is not None and not modes.is_module(value):
            havoc(m, [m.store.get(("items", value.id))])
        elif isinstance(value, Object | Symbol):
            if gradients.is_optimizer(m, value):
                gradients.forget(m, value)
            elif modes.is_module(value) or modes.known_as_module(m, value):
                modes.forget(m, value)


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
        try:
            applied = expressions.evaluate(m, decorator)
            result = _decorate(m, applied, result, decorator, owner)
        finally:
            m.frames.pop()
    return result


def _decorate(m: Machine, decorator: Value, function: Value, node: ast.expr, owner: Value | None) -> Value:
    if isinstance(decorator, External | Object):
        name = decorator.name if isinstance(decorator, External) else decorator.type
        return decorators.decorate(m, name, decorator, function, node, owner)
    if isinstance(decorator, Function | Partial):
        bound = function.bound if isinstance(function, Function) else None
        plain = function
        if isinstance(function, Function) and bound is not None and not function.static:
            plain = Function(function.info, function.scope, None, function.grad, function.place)
        made = call(m, decorator, [plain], {}, node)
        if bound is not None and isinstance(made, Function):
            return Partial(made, (bound,), {}) if made.bound is None else made
        return made if isinstance(made, Function | Partial | Object) else function
    if isinstance(function, Function):
        return Function(function.info, function.scope, function.bound, "unknown", function.place, function.static)
    return function


def call_function(
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
    if len(m.frames) >= MAX_DEPTH or habits.is_abandoned(m, info) or _recurs(m, function):
        return _given_up(m, args, kwargs)
    if on_yield is None and not m.relevance.to_follow(info) and habits.all_dull(m, function, args, kwargs):
        values = [*args, *kwargs.values()]
        return Symbol(m.fresh(), "", split_of(*values), traces_of(*values))
    if on_yield is None and (known := habits.spared(m, function, args, kwargs)) is not None:
        return known
    grad, mark, facts, first = m.grad, m.store.mark(), m.facts.total(), m.fresh()
    scope = ("call", m.fresh())
    frame = Frame(info.module, scope, Sink(mark), m.fresh(), info, function.bound, on_yield, m.effort.steps)
    m.parents[frame.scope] = function.scope
    depth, loops = len(m.frames), len(m.loops)
    m.frames.append(frame)
    try:
        if function.grad:
            m.store.set(("grad",), GradMode(function.grad, function.place))
        bind_parameters(m, function, args, kwargs)
        result = _run(m, info)
        if function.grad:
            m.store.set(("grad",), grad)
    except Abandoned as abandoned:
        if abandoned.frame is not frame:
            raise
        del m.loops[loops:]
        m.store.undo(mark)
        habits.abandon(m, info)
        return _given_up(m, args, kwargs)
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


def _given_up(m: Machine, args: Args, kwargs: Kwargs) -> Value:
    """The result of a call that is not followed, after anything it may have done to what it was given."""
    values = [*args, *kwargs.values()]
    havoc(m, values)
    return Symbol(m.fresh(), "", split_of(*values), graph.opaque(m, traces_of(*values)))


def _run(m: Machine, info: FunctionInfo) -> Value:
    node = info.node
    if isinstance(node, ast.Lambda):
        return expressions.evaluate(m, node.body)
    if info.straight:
        return _run_straight(m, node.body)
    normal, exits = m.capture(lambda: statements.block(m, node.body))
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
        m.merge(deltas, shared)
        return join_values(m, values, shared)
    m.merge(deltas)
    return values[0]


def _run_straight(m: Machine, body: list[ast.stmt]) -> Value:
    last = body[-1]
    returned = isinstance(last, ast.Return)
    if not statements.block(m, body[:-1] if returned else body):
        raise DeadPath
    return expressions.evaluate(m, last.value) if isinstance(last, ast.Return) else NONE


def _told_apart(deltas: list[dict[tuple[Hashable, ...], object]]) -> Hashable:
    """The condition that one of two ways took for true and the other for false."""
    if len(deltas) == 2:
        for cell, value in deltas[0].items():
            if cell[0] == "if" and value is True and deltas[1].get(cell) is False:
                return cell[1]
            if cell[0] == "if" and value is False and deltas[1].get(cell) is True:
                return ("not", cell[1])
    return None


def bind_parameters(m: Machine, function: Function, args: Args, kwargs: Kwargs) -> None:
    """Bind arguments as Python does; what is missing is a symbol of the parameter's name."""
    given = [function.bound, *args] if function.bound is not None and not function.static else list(args)
    spec = function.info.node.args
    named = dict(kwargs)
    more = named.pop("**", None)
    positional = [*spec.posonlyargs, *spec.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(spec.defaults)) + list(spec.defaults)
    for index, (parameter, default) in enumerate(zip(positional, defaults, strict=True)):
        if index < len(given):
            value: Value = given[index]
        else:
            value = _named_or_default(m, function, parameter, default, named, more)
        m.bind(parameter.arg, value)
    if spec.vararg is not None:
        rest = given[len(positional) :]
        m.bind(spec.vararg.arg, Tuple(tuple(rest), more is not None))
    for parameter, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
        m.bind(parameter.arg, _named_or_default(m, function, parameter, default, named, more))
    if spec.kwarg is not None:
        m.bind(spec.kwarg.arg, containers.new_dict(m, Table(dict(named), more is not None)))


def _named_or_default(
    m: Machine, function: Function, parameter: ast.arg, default: ast.expr | None, named: Kwargs, more: Value | None
) -> Value:
    name = parameter.arg
    if name in named:
        return named.pop(name)
    if default is not None and more is None:
        scope = m.frame.scope
        m.frame.scope = function.scope
        try:
            return expressions.evaluate(m, default)
        finally:
            m.frame.scope = scope
    return strangers.argument(m, function, parameter)


def _call_object(m: Machine, function: Object, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if function.type == "contextlib.contextmanager":
        return Object("contextlib.generator", m.fresh(), None, (function.args[0], *args), kwargs, m.place(node))
    method = function.cls.find("__call__") if function.cls is not None else None
    if method is not None:
        return call(m, attributes.bind_method(m, method, function, node), args, kwargs, node)
    if modes.is_module(function):
        return modules.call_module(m, function, args, kwargs, node)
    return methods.call(m, function, "__call__", args, kwargs, node)


def run_generator(m: Machine, made: Object) -> Value:
    """What a project generator yields, run once through."""
    yielded: list[Value] = []

    def resume(value: Value) -> Value:
        yielded.append(value)
        return m.symbol()

    function = made.args[0]
    if isinstance(function, Function):
        try:
            call_function(m, function, list(made.args[1:]), made.kwargs, function.info.node, on_yield=resume)
        except DeadPath:
            pass
        if yielded:
            return join_values(m, yielded, None) if not isinstance(yielded[0], Tuple) else yielded[0]
        return Symbol(m.fresh(), "", split_of_name(function.info.name))
    return m.symbol()
