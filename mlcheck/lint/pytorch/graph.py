"""What else may have a part in the graph of a result, besides the module calls it is known to come from."""

from __future__ import annotations

import ast

from mlcheck.lint.facts import Forward, GradMode, Place, Turn
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.values import NONE, Object, Params, Select, Symbol, Tensor, Traces, Value

UNSEEN = Forward(
    place=Place("", ast.Pass(), ""),
    module=NONE,
    name="",
    modes=frozenset(),
    grad=GradMode("unknown"),
    when=Turn((), ()),
    loops=(),
    functions=(),
    split="",
    moded="unknown",
    frozen=False,
    restored=False,
)
"""Stands in traces for code that is not known and may use parameters of its own. Never on record as a fact."""


def opaque(m: Machine, traces: Traces) -> Traces:
    """The traces of what unknown code made of traced values."""
    return traces | {UNSEEN} if traces and m.grad.kind != "off" else traces


def joined(m: Machine, traces: Traces, *parts: Value) -> Traces:
    """The traces of a result in which these have a part: some may be parameters themselves."""
    return opaque(m, traces) if traces and any(map(_may_learn, parts)) else traces


def _may_learn(value: Value) -> bool:
    if isinstance(value, Symbol):
        data = isinstance(value.key, tuple) and value.key[:1] in (("item",), ("element",), ("batch",))
        return not (value.traces or value.split or data)
    if isinstance(value, Tensor):
        return not (value.traces or value.split)
    if isinstance(value, Object):
        return not value.type.startswith("builtins.")
    if isinstance(value, Select):
        return _may_learn(value.then) or _may_learn(value.other)
    return isinstance(value, Params)
