"""Arguments bound to parameters."""

from __future__ import annotations

import ast

from mlcheck.lint.interpret import containers
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.python import attributes, strangers
from mlcheck.lint.values import Args, Function, Kwargs, Object, Table, Tuple, Value


def bind(m: Machine, function: Function, args: Args, kwargs: Kwargs) -> None:
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
        if isinstance(value, Object) and value.type.startswith("torch.optim."):
            attributes.name_object(m, value, parameter.arg)  # `make_trainer(net, Adam(net.parameters()))`
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
            return m.evaluate(default)
        finally:
            m.frame.scope = scope
    return strangers.argument(m, function, parameter)
