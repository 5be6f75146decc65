"""Reading and writing attributes: of modules, classes, instances, library objects and unknown values."""

from __future__ import annotations

import ast

from mlcheck.lint import names
from mlcheck.lint.interpret.frames import Frame, Sink
from mlcheck.lint.interpret.joins import join_values
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.program import ClassInfo, FunctionInfo
from mlcheck.lint.python import decorators
from mlcheck.lint.pytorch import cuts, freezing, gradients, holding, modes, optimizers
from mlcheck.lint.shapes import rules as shape_rules
from mlcheck.lint.values import (
    FALSE,
    NO_TRACES,
    Class,
    Const,
    External,
    Function,
    Imported,
    Method,
    Module,
    Object,
    Params,
    Saved,
    Select,
    Super,
    Symbol,
    Tensor,
    Value,
    live,
    owner_key,
    split_of_name,
    with_name,
)

NAMESPACE = "builtins.module.__dict__"
_SAME_TENSOR, _ABOUT = frozenset(["data", "T", "mT", "H", "mH", "real"]), ("shape", "dtype", "device", "ndim")
_CALLABLE = frozenset(["step", "zero_grad", "backward", "eval", "train", "forward", "parameters", "append", "__call__"])

_OF_MODULES = frozenset(
    [
        *("train", "eval", "forward", "parameters", "named_parameters", "children", "modules", "named_modules", "to"),
        *("named_children", "buffers", "state_dict", "load_state_dict", "zero_grad", "requires_grad_", "apply", "cuda"),
        *("cpu", "half", "float", "double", "register_forward_hook", "add_module", "append", "get_submodule"),
    ]
)


def get(m: Machine, owner: Value, name: str, node: ast.AST) -> Value:
    """`owner.name`, with properties called and methods bound."""
    if isinstance(owner, Tensor | Symbol) and (owner.shape is not None or name == "values"):
        known = shape_rules.of_attribute(m, owner, name)
        if known is not None:
            return known
    match owner:
        case Module() | External() if name == "__dict__":
            return Object(NAMESPACE, m.fresh(), None, (owner,))
        case Function(info=named) | Class(info=named) if name == "__name__":
            return Const(named.qualname.rpartition(".")[2])
        case Object():
            return _of_object(m, owner, name, node)
        case Symbol():
            stored: Value | None = m.store.get(("a", owner.key, name))
            if stored is not None:
                return stored
            if name == "training" and m.store.get(("mode", owner.key)) is not None:
                return Saved(modes.modes_of(m, owner), ("attr", owner.key, name))
            traces = owner.traces if name not in _ABOUT else NO_TRACES
            return Symbol(("attr", owner.key, name), name, _split(owner, name), traces)
        case Module(name=module):
            return names.module_attribute(m, module, name) or m.symbol(name)
        case Imported():
            return get(m, names.module_attribute(m, owner.module, owner.name) or m.symbol(owner.name), name, node)
        case External(name=module):
            return External(names.canonical(f"{module}.{name}"))
        case Tensor():
            if name == "data":
                return cuts.of_data(m, owner, owner, node)
            if name in _SAME_TENSOR:
                return Tensor(owner.kind, owner.place, owner.split)
            if name == "values":  # of `max(dim)`, `topk` and their like
                return Tensor("other", None, owner.split, owner.traces)
            if name == "requires_grad" and owner.traces and all(t.grad.kind == "off" for t in live(owner.traces)):
                return FALSE
            return m.symbol(name) if name in (*_ABOUT, "grad") else Method(owner, name)
        case Class(info=info):
            return _of_class(m, owner, info, name)
        case Super(bound=bound, after=after):
            method = after_method(bound, after, name)
            return bind_method(m, method, bound, node) if method is not None else Method(bound, name, after)
        case Params(owners=owners):
            return (
                Params(owners, owner.one, gradient=True) if name == "grad" else owner if name == "data" else m.symbol()
            )
        case Select():
            return (
                m.branch(owner.key, lambda: get(m, owner.then, name, node), lambda: get(m, owner.other, name, node))
                if not _is_none(owner)
                else get(m, _not_none(owner), name, node)
            )
    return Method(owner, name) if name in _CALLABLE else m.symbol(name)


def _is_none(value: Select) -> bool:
    return any(isinstance(side, Const) and side.value is None for side in (value.then, value.other))


def _not_none(value: Select) -> Value:
    return value.other if isinstance(value.then, Const) else value.then


def _split(owner: Symbol, name: str) -> str:
    """`val_batch.images` is of the held-out data; what `val_tasks[0].train_data` is of, nobody knows."""
    told = {owner.split, split_of_name(name)} - {""}
    return told.pop() if len(told) == 1 else ""


def _of_object(m: Machine, owner: Object, name: str, node: ast.AST) -> Value:
    m.ready(owner)
    stored: Value | None = m.store.get(("a", owner.id, name))
    if stored is not None:
        return or_default(m, owner, name, stored)
    if owner.cls is not None:
        info = owner.cls.find(name)
        if info is not None:
            return bind_method(m, info, owner, node)
        found = _class_variable(m, owner.cls, name)
        if found is not None:
            return found
    if modes.is_module(owner):
        if name == "training":
            return Saved(modes.modes_of(m, owner), ("attr", owner.id, name))
        if name == "module":
            return owner
    if name == "param_groups" and (known := optimizers.groups(m, owner)) is not None:
        return known
    if owner.type.startswith("torchvision.models.") and not name.startswith("_") and name not in _OF_MODULES:
        return Symbol(("attr", owner.id, name), name)
    if owner.type == "builtins.dict" or name in _CALLABLE or (owner.cls is None and modes.is_module(owner)):
        return Method(owner, name)
    return Symbol(("attr", owner.id, name), name, split_of_name(name))


def or_default(m: Machine, owner: Object, name: str, stored: Value) -> Value:
    """An attribute that was set on some paths alone is on the others what the class says."""
    told = m.store.get(("partly", owner.id, name))
    default = _class_variable(m, owner.cls, name) if told is not None and owner.cls is not None else None
    return stored if default is None else join_values(m, [stored, default], told)


def _class_variable(m: Machine, cls: ClassInfo, name: str) -> Value | None:
    for info in cls.mro:
        if name in info.assigned:
            stored: Value | None = m.store.get(("a", info.node, name))
            if stored is not None:
                return stored
            expression = info.assigned[name]
            if expression is None:
                return None
            with InScope(m, info):
                return m.evaluate(expression)
    return None


class InScope:
    """Evaluate something where a class was defined."""

    def __init__(self, m: Machine, info: ClassInfo) -> None:
        self.m, self.info = m, info

    def __enter__(self) -> None:
        m = self.m
        m.frames.append(Frame(self.info.module, self.info.scope, Sink(m.store.mark()), m.frame.call))

    def __exit__(self, *_: object) -> None:
        if self.m.frames:
            self.m.frames.pop()


def _of_class(m: Machine, owner: Class, info: ClassInfo, name: str) -> Value:
    stored: Value | None = m.store.get(("a", info.node, name))
    if stored is not None:
        return stored
    method = info.find(name)
    if method is not None:
        return decorators.decorated(m, Function(method, method.scope), method, owner)
    found = _class_variable(m, info, name)
    if found is not None:
        return found
    return Symbol(("attr", info.qualname, name), name)


def bind_method(m: Machine, info: FunctionInfo, owner: Value, node: ast.AST) -> Value:
    """The method bound to the object; a property's value."""
    value = decorators.decorated(m, Function(info, info.scope, owner), info, owner)
    if isinstance(value, Object) and value.type == "builtins.property":
        return m.call(value.args[0], [], {}, node)
    return value


def after_method(bound: Value, after: ClassInfo, name: str) -> FunctionInfo | None:
    """The method `super()` finds, or None when only a library base can have it."""
    start = bound.cls if isinstance(bound, Object) and bound.cls else after
    return start.find(name, after) or after.find(name, after)


def put(m: Machine, owner: Value, name: str, value: Value, node: ast.AST) -> None:
    """`owner.name = value`."""
    if isinstance(owner, Select):
        put(m, owner.then, name, value, node)
        put(m, owner.other, name, value, node)
        return
    if name == "grad":
        gradients.assigned(m, owner, value, node)
        return
    if name == "requires_grad" and isinstance(owner, Params):
        modes.freeze(m, owner.owners, value)
        freezing.freeze(m, owner.owners, value, node, owner.one)
        return
    if isinstance(owner, Symbol) and not owner.split and (name == "requires_grad" or modes.is_module(value)):
        if value != FALSE:
            freezing.freed_unseen(m)
    if name == "requires_grad" and isinstance(owner, Object) and modes.is_module(owner):
        freezing.freeze_in_vain(m, owner, value, node)
    key = owner_key(owner)
    if isinstance(owner, Object):
        m.ready(owner)
    if isinstance(owner, Class):
        m.store.set(("a", owner.info.node, name), value)
    elif isinstance(owner, Module):
        m.store.set(("v", owner.name, name), value)
    if key is None:
        return
    if isinstance(owner, Object) and owner.cls is not None:
        setter = owner.cls.find(name + "=")
        if setter is not None:
            m.follow(Function(setter, setter.scope, owner), [value], {}, node)
            return
    if name == "training":
        modes.set_mode(m, owner, value, m.place(node))
        return
    value = with_name(value, name)
    before = m.store.get(("a", key, name))
    m.store.set(("a", key, name), value)
    if m.store.get(("partly", key, name)) is not None:
        m.store.set(("partly", key, name), None)
    if isinstance(owner, Object):
        known = m.store.get(("attrs", key)) or ()
        if name not in known:
            m.store.set(("attrs", key), (*known, name))
    name_object(m, value, name)
    holding.noted(m, owner)
    unknown = isinstance(owner, Symbol) and isinstance(value, Object) and value.cls is None
    if unknown or modes.is_module(owner):  # `model.fc = nn.Linear(...)`, be the model what it may
        holding.put(m, owner, name, value, before, node)
        modes.adopt(m, owner, value)


def name_object(m: Machine, value: Value, name: str) -> None:
    """An object takes the name of the first variable it is bound to."""
    if isinstance(value, Object) and m.store.get(("name", value.id)) is None:
        m.store.set(("name", value.id), name)
