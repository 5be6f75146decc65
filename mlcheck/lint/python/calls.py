"""Calls: project functions followed with their arguments, classes made, everything else handed on."""

from __future__ import annotations

import ast
from collections.abc import Callable

from mlcheck.lint.interpret.equalities import supposing
from mlcheck.lint.interpret.joins import join_values
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.python import attributes, command_line, instances, libraries
from mlcheck.lint.pytorch import gradients, graph, losses, methods, modes, modules, optimizers
from mlcheck.lint.training import Bypass
from mlcheck.lint.values import (
    Args,
    Class,
    Const,
    External,
    Function,
    Kwargs,
    Method,
    Module,
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
    traces_of,
)


def call(m: Machine, function: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Call any value."""
    match function:
        case Function():
            return m.follow(function, args, kwargs, node)
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
    counted = [len(m.facts.losses)]

    def side_of(side: Value) -> Value:
        try:
            return use(side)
        finally:
            counted.append(len(m.facts.losses))

    if not all(isinstance(side, Object | Symbol | Select) for side in (value.then, value.other)):
        result = m.branch(value.key, lambda: side_of(value.then), lambda: side_of(value.other))
        losses.chosen(m, value.key, counted)
        return result
    results = []
    for side, holds in ((value.then, True), (value.other, False)):
        with supposing(m, value.key, holds):
            results.append(side_of(side))
    losses.chosen(m, value.key, counted)
    return join_values(m, results, value.key)


def call_method(m: Machine, owner: Value, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`owner.name(...)`: the project's own method where there is one, else what the library's does."""
    if isinstance(owner, Select):
        return _each(m, owner, lambda side: call_method(m, side, name, args, kwargs, node))
    if isinstance(owner, Module):  # one of several, any of which an import may mean
        return call(m, attributes.get(m, owner, name, node), args, kwargs, node)
    if name == "forward" and owner is not m.frame.bound and isinstance(node, ast.Call):
        if modes.is_module(owner) or modes.known_as_module(m, owner):
            called = m.store.get(("name", owner_key(owner))) or getattr(owner, "name", "") or "model"
            m.facts.bypasses.append(Bypass(m.place(node), called))
    if isinstance(owner, Object | Symbol):
        if isinstance(owner, Object) and name not in modes.OUTSIDE:
            m.ready(owner)
        stored: Value | None = m.store.get(("a", owner.id if isinstance(owner, Object) else owner.key, name))
        if stored is not None:
            value = attributes.or_default(m, owner, name, stored) if isinstance(owner, Object) else stored
            return call(m, value, args, kwargs, node)
    if isinstance(owner, Object) and owner.cls is not None:
        info = owner.cls.find(name)
        if info is not None:
            method = attributes.bind_method(m, info, owner, node)
            if modules.is_entered(m, owner, info, name):
                return modules.within(m, owner, lambda: call(m, method, args, kwargs, node), args, kwargs, node, info)
            if name == "step" and gradients.is_optimizer(m, owner):
                return optimizers.own_step(m, owner, info, lambda: call(m, method, args, kwargs, node), node)
            return call(m, method, args, kwargs, node)
        if any(name in base.assigned for base in owner.cls.mro):
            return call(m, attributes.get(m, owner, name, node), args, kwargs, node)
    result = methods.call(m, owner, name, args, kwargs, node)
    return command_line.parsed(m, owner, result) if name == "parse_args" else result


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


def _call_object(m: Machine, function: Object, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if function.type == "contextlib.contextmanager":
        return Object("contextlib.generator", m.fresh(), None, (function.args[0], *args), kwargs, m.place(node))
    if modes.is_module(function):
        return modules.call_module(m, function, args, kwargs, node)
    method = function.cls.find("__call__") if function.cls is not None else None
    if method is not None:
        return call(m, attributes.bind_method(m, method, function, node), args, kwargs, node)
    return methods.call(m, function, "__call__", args, kwargs, node)
