"""Calling modules: what a layer makes of its input, and the record of each call from outside."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterable

from mlcheck.core.dataclasses import replace
from mlcheck.lint.facts import Forward
from mlcheck.lint.interpret import containers
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.interpret.turns import called_in_loop
from mlcheck.lint.program import FunctionInfo
from mlcheck.lint.python import decorators
from mlcheck.lint.pytorch import endings, frameworks, graph, heads, holding, losses, moded, modes, precision, pretrained
from mlcheck.lint.pytorch.recurrent import LAYERS as RECURRENT
from mlcheck.lint.pytorch.recurrent import returned
from mlcheck.lint.shapes import recording
from mlcheck.lint.shapes import rules as shape_rules
from mlcheck.lint.sites.layers.hooks import hooked
from mlcheck.lint.touched import Touched
from mlcheck.lint.values import (
    Args,
    Cut,
    Function,
    Kwargs,
    Object,
    Select,
    Symbol,
    Table,
    Tensor,
    Tuple,
    Value,
    live,
    owner_key,
    split_of,
    traces_of,
)

_ACTIVATIONS = {
    "Softmax": "softmax",
    "Softmax2d": "softmax",
    "Sigmoid": "sigmoid",
    "LogSoftmax": "log_softmax",
    "LogSigmoid": "log_sigmoid",
    "Tanh": "tanh",
}
_PLACED = frozenset(_ACTIVATIONS.values()) - {"tanh"}
_LINEAR = ("Linear", "Conv", "LazyLinear", "LazyConv", "Bilinear", "Embedding")
_SAME = ("Identity", "Flatten", "Unflatten", "Dropout", "AlphaDropout", "FeatureAlphaDropout")


def call_module(m: Machine, module: Object, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`module(...)`. From outside any module the call is put on record and traced through its result."""
    if module.cls is None and losses.is_loss(module.type):
        return losses.call(m, module.type, args, kwargs, node, module)
    key = owner_key(module)
    m.touched.call(key, m.grad.kind == "off" or modes.is_frozen(m, module))
    if m.inside_module or (_holds_loss(module) and not holding.has_own_parameter(m, module)):
        return _forward(m, module, args, kwargs, node)
    return within(m, module, lambda: _forward(m, module, args, kwargs, node), args, kwargs, node)


def within(
    m: Machine,
    module: Object,
    run: Callable[[], Value],
    args: list[Value],
    kwargs: dict[str, Value],
    node: ast.AST,
    method: FunctionInfo | None = None,
) -> Value:
    """Run code of a module, and put it on record as one call of it: `forward`, or a `method` that uses its layers."""
    fact = record(m, module, args, kwargs, node)
    if method is not None:
        fact.moded = moded.moded_in(m, module, method)
    outer, m.touched = m.touched, fact.touched
    m.inside_module += 1
    try:
        result = run()
    finally:
        m.inside_module -= 1
        m.touched = outer
        used = method is None or fact.touched != {module.id}
        if not used and m.facts.forwards[-1] is fact:
            m.facts.forwards.pop()
    return traced(m, result, fact) if used else result


def is_entered(m: Machine, module: Object, info: FunctionInfo, name: str) -> bool:
    """Whether a method of the model, called from outside of it, stands for a call: `model.predict(x)`.

    A method that trains or evaluates by itself is the program's business, whatever its class derives from;
    and where a method calls the model itself, that is the call.
    """
    if m.inside_module or not modes.is_module(module) or name in modes.OUTSIDE or name.startswith("__"):
        return False
    if module.cls is None or (frameworks.owner_of(module.cls) and name != "forward"):
        return False
    line = [base.methods[name] for base in module.cls.mro if name in base.methods] or [info]
    return all(frame.bound is not module for frame in m.frames) and all(map(m.relevance.is_quiet, line))


def _holds_loss(module: Object) -> bool:
    """A loss written as a module: it has no parameters to train and no mode."""
    if module.cls is None:
        return False
    name = module.cls.qualname.lower()
    return name.endswith(("loss", "criterion", "objective")) or any("Loss" in base for base in module.cls.libraries)


def call_unknown(m: Machine, module: Symbol, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """A call of an unknown module."""
    values = [*args, *kwargs.values()]
    result: Value = Symbol(m.fresh(), "", split_of(*values), traces_of(*values))
    if m.inside_module:
        m.touched.call(module.key, m.grad.kind == "off" or modes.is_frozen(m, module))
        pretrained.used(m, module, m.touched)
        return result
    m.store.set(("owner", module.key), True)
    made = traced(m, result, forward := record(m, module, args, kwargs, node))
    if isinstance(made, Symbol):
        m.store.set(("output", made.key), forward)
    return made


def record(m: Machine, module: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Forward:
    values = [*args, *kwargs.values()]
    key = owner_key(module)
    if isinstance(module, Object):
        m.ready(module)
    name = m.store.get(("name", key)) or getattr(module, "name", "") or "model"
    fact = Forward(
        place=m.place(node),
        module=module,
        name=name,
        modes=modes.modes_of(m, module),
        grad=m.grad,
        when=m.now(),
        loops=tuple(m.loops),
        functions=tuple(frame.info.name for frame in m.frames if frame.info),
        split=split_of(*values),
        moded=moded.moded(m, module),
        frozen=modes.is_frozen(m, module),
        restored=any(m.store.get(("restored", outer)) for outer in modes.ancestors(m, key)),
        touched=Touched([key]),
        half=precision.half_of(m, key),
        fed=traces_of(*values),
        chained=_chained(values) if m.loops else frozenset(),
        through=called_in_loop(m),
    )
    m.facts.forwards.append(fact)
    pretrained.used(m, module, fact.touched)
    return fact


def _chained(values: Iterable[Value]) -> frozenset[Forward]:
    """The calls that are behind the arguments for certain: on each path, with no unknown code in between."""
    found: frozenset[Forward] = frozenset()
    for value in values:
        if isinstance(value, Tuple):
            found |= _chained(value.items)
        elif isinstance(value, Select):
            found |= _chained([value.then]) & _chained([value.other])
        elif graph.UNSEEN not in traces_of(value):
            found |= live(traces_of(value))
    return found


def traced(m: Machine, value: Value, fact: Forward) -> Value:
    """The result remembers the call it came from."""
    if isinstance(value, Tensor) and value.cut and value.place is not None and fact.grad.kind == "on":
        return replace(value, traces=value.traces | {Cut(value.place, fact)})
    if isinstance(value, Tensor | Symbol):
        return replace(value, traces=value.traces | {fact})
    if isinstance(value, Tuple):
        return Tuple(tuple(traced(m, item, fact) for item in value.items), value.open)
    if isinstance(value, Select):
        return Select(value.key, traced(m, value.then, fact), traced(m, value.other, fact))
    if isinstance(value, Object):
        items = m.store.get(("items", value.id))
        if isinstance(items, Table):
            changed: Value = Table({k: traced(m, v, fact) for k, v in items.items.items()}, items.open)
            m.store.set(("items", value.id), changed)
        elif isinstance(items, Tuple):
            m.store.set(("items", value.id), traced(m, items, fact))
        for name in m.store.get(("attrs", value.id)) or ():
            inner = m.store.get(("a", value.id, name))
            if isinstance(inner, Tensor | Symbol):
                m.store.set(("a", value.id, name), traced(m, inner, fact))
    return value


def _forward(m: Machine, module: Object, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if module.cls is not None:
        method = module.cls.find("__call__") or module.cls.find("forward")
        if method is not None:
            bound = Function(method, method.scope, module)
            return m.call(decorators.decorated(m, bound, method, module), args, kwargs, node)
        if "torch.nn.Sequential" not in module.cls.libraries:
            values = [*args, *kwargs.values()]
            return Symbol(m.fresh(), "", split_of(*values), traces_of(*values))
    result = layer(m, module, args, kwargs, node)
    if m.inside_module and m.grad.kind == "off" and isinstance(result, Tensor) and holding.has_parameters(m, module):
        kept = result.place if result.kind in _PLACED else None  # where it was made is what its own rules tell
        result = replace(result, place=kept or m.place(node), cut=True)
    if module.cls is None and (args or kwargs) and module.type.startswith("torch.nn."):
        shape = shape_rules.of_layer(m, module, args[0] if args else next(iter(kwargs.values())))
        return shape_rules.with_shape(result, shape)
    return result


def layer(m: Machine, module: Object, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """What a library layer returns."""
    name = module.type.rpartition(".")[2]
    given = [*args, *kwargs.values()]
    first: Value = given[0] if given else m.symbol()
    traces, split = traces_of(*given), split_of(*given)
    if name == "Sequential" or (module.cls and "torch.nn.Sequential" in module.cls.libraries):
        items = containers.contents(m, module)
        layers = list(items.items.values()) if isinstance(items, Table) else list(items.items) if items else []
        if items is None or items.open:
            return _after_unknown(m, containers.tail(m, module), Symbol(m.fresh(), "", split, traces), node)
        result = first
        for inner in layers:
            result = m.call(inner, [result], {}, node)
            if isinstance(inner, Object) and inner.cls is None and isinstance(result, Tensor) and inner.place:
                result = replace(result, place=inner.place)
        return result
    if name in ("Softmax", "LogSoftmax"):
        dim = module.args[0] if module.args else module.kwargs.get("dim")
        recording.softmax(m, first, dim, module.place or m.place(node))
    if name in _ACTIVATIONS:
        return losses.activated(m, _ACTIVATIONS[name], first, node, split, traces)
    if name.startswith(_LINEAR):
        return Tensor("other" if m.facts.sites.once(hooked) else "raw", m.place(node), split, traces)
    if name.startswith(_SAME) or (isinstance(first, Tensor) and endings.averages(name, first.kind)):
        return replace(first, shape=None) if isinstance(first, Tensor | Symbol) else first
    if name in RECURRENT:
        return returned(m, module, first, split, traces, node)
    if module.type.startswith("torch.nn."):
        return Tensor("other", None, split, traces)
    unknown = Symbol(m.fresh(), "", split, traces)
    if kind := endings.activation(module):
        ended = losses.activated(m, kind, unknown, node, split, traces)
        return replace(ended, place=module.place or ended.place)
    return heads.after_backbone(m, module, unknown, node)


def _after_unknown(m: Machine, last: Value | None, between: Symbol, node: ast.AST) -> Value:
    """What the last layer makes of what the layers before it, which are not all known, leave."""
    if isinstance(last, Select):
        return Select(last.key, *(_after_unknown(m, side, between, node) for side in (last.then, last.other)))
    if not isinstance(last, Object) or last.cls is not None:
        return between
    kind = last.type.rpartition(".")[2]
    if kind not in _ACTIVATIONS and not kind.startswith(_LINEAR):
        return between
    result = m.call(last, [between], {}, node)
    return replace(result, place=last.place) if isinstance(result, Tensor) and last.place else result


def keys_of(value: Value) -> frozenset[Hashable]:
    key = owner_key(value)
    return frozenset([key]) if key is not None else frozenset()
