"""Python's own functions and the standard library's: what they return and change."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from mlcheck.lint.interpret import containers
from mlcheck.lint.interpret.conditions import key_of
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.python import attributes, definitions, elements
from mlcheck.lint.pytorch import gradients, modes, snapshots
from mlcheck.lint.shapes import asking
from mlcheck.lint.shapes.algebra import SCALAR
from mlcheck.lint.values import (
    NONE,
    Args,
    Class,
    Const,
    External,
    Function,
    Kwargs,
    Object,
    Params,
    Partial,
    Select,
    Super,
    Symbol,
    Table,
    Tensor,
    Tuple,
    Value,
    split_of,
    traces_of,
)


def asked(m: Machine, name: str, args: Args) -> Value:
    """Pure questions have the same answer each time on one path."""
    if name == "builtins.isinstance" and len(args) == 2:
        if isinstance(args[0], Select):
            return Select(args[0].key, *(asked(m, name, [side, args[1]]) for side in (args[0].then, args[0].other)))
        known = _is_instance(m, args[0], args[1])
        if known is not None:
            return Const(known)
    if name == "builtins.len" and args and (count := containers.count(m, args[0])):
        return Const(count)
    if name == "builtins.len" and args and (size := asking.length(m, args[0])) is not None:
        return size
    return Symbol((name, *(key_of(m, arg) for arg in args)))


_OPTIMIZERS = ("torch.optim.Optimizer", "torch.optim.optimizer.Optimizer")
_SEQUENCES = {"builtins.list", "builtins.tuple"}
_PLAIN = {"builtins.str": str, "builtins.bool": bool, "builtins.int": int, "builtins.float": float}


def _is_instance(m: Machine, value: Value, of: Value) -> bool | None:
    if isinstance(of, Tuple) and not of.open:
        named = {one.name for one in of.items if isinstance(one, External)}
        if isinstance(value, Tuple) and named >= _SEQUENCES:
            return True
        each = [_is_instance(m, value, one) for one in of.items]
        return True if True in each else None if None in each else False
    if isinstance(of, External) and of.name in _PLAIN:
        if isinstance(value, Const):
            return isinstance(value.value, _PLAIN[of.name])
        return False if isinstance(value, Object) and value.type.startswith("torch.") else None
    if isinstance(of, Class) and isinstance(value, Object) and value.cls is not None:
        return of.info.node in {info.node for info in value.cls.mro}
    if isinstance(of, Class) and isinstance(value, Class | Function):
        return None if "builtins.type" in of.info.libraries else False  # a class is no instance, but of metaclasses
    if isinstance(of, External) and of.name == "builtins.type" and isinstance(value, Class | External):
        return True if isinstance(value, Class) or value.name.rpartition(".")[2][:1].isupper() else None
    if isinstance(of, External) and of.name == "torch.nn.Module":
        return False if isinstance(value, Function) else True if modes.is_module(value) else None
    if isinstance(of, External) and of.name in _OPTIMIZERS:
        return False if isinstance(value, Function) else True if gradients.is_optimizer(m, value) else None
    if isinstance(of, External) and isinstance(value, Object) and value.cls is None:
        return True if value.type == of.name else None
    return None


def _deepcopy(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    value = args[0] if args else NONE
    if isinstance(value, Select):
        return Select(value.key, *(_deepcopy(m, [side], {}, node) for side in (value.then, value.other)))
    if not isinstance(value, Object):
        return Symbol(m.fresh()) if isinstance(value, Symbol | Params) else value
    m.ready(value)
    made = Object(value.type, m.fresh(), value.cls, value.args, value.kwargs, value.place)
    for tag in ("items", "mode", "attrs"):
        cell = m.store.get((tag, value.id))
        if cell is not None:
            m.store.set((tag, made.id), _copied_inside(m, cell, node))
    for name in m.store.get(("attrs", value.id)) or ():
        held = m.store.get(("a", value.id, name))
        inside = not kwargs and isinstance(held, Object) and modes.is_module(held)  # one level: they may go in circles
        unknown = isinstance(held, Symbol) and value.cls is not None and name in value.cls.handled
        kept = _deepcopy(m, [held], {"memo": NONE}, node) if inside or unknown else held
        m.store.set(("a", made.id, name), kept)
        modes.adopt(m, made, kept)
    if modes.is_module(value):
        m.store.set(("mode", made.id), modes.modes_of(m, value))
        m.store.set(("copied", made.id), True)
    return made


def _copied_inside(m: Machine, cell: Any, node: ast.AST) -> Any:
    """A dictionary with copies of what it holds, as in `deepcopy({"model": model.state_dict()})`."""
    if not isinstance(cell, Table):
        return cell
    copies = {
        key: _deepcopy(m, [held], {}, node) if isinstance(held, Object) else held for key, held in cell.items.items()
    }
    return Table(copies, cell.open)


def _partial(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Partial(args[0], tuple(args[1:]), kwargs) if args else m.symbol()


def _next(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return elements.element(m, args[0]) if args else m.symbol()


def _object(kind: str) -> Callable[[Machine, Args, Kwargs, ast.AST], Value]:
    def make(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        if kind == "builtins.enumerate" and args:
            known = elements.finite(m, args[0])
            if known is not None:
                return Tuple(tuple(Tuple((Const(index), item)) for index, item in enumerate(known)))
        if kind == "builtins.zip":
            snapshots.zipped(m, tuple(args), node)
        if kind == "builtins.zip" and args:
            columns = [containers.items(m, arg) for arg in args]
            if not all(column is not None and len(column) <= 8 for column in columns):
                columns = [None]
            if all(column is not None for column in columns):
                return Tuple(tuple(Tuple(row) for row in zip(*(column or [] for column in columns), strict=False)))
        return Object(kind, m.fresh(), None, tuple(args), kwargs, m.place(node))

    return make


def _dict(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if len(args) == 1 and not kwargs and (isinstance(args[0], Params) or snapshots.is_state(args[0])):
        return args[0]  # `dict(model.named_parameters())` too
    table = containers.table(m, args[0]) or containers.of_pairs(m, args[0]) if args else Table({})
    if table is None:
        return containers.new_dict(m, Table(dict(kwargs), True))
    return containers.new_dict(m, Table({**table.items, **kwargs}, table.open or "**" in kwargs))


def _defaultdict(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`defaultdict(list)`: all its lists are one."""
    made = Object("collections.defaultdict", m.fresh(), None, tuple(args), kwargs, m.place(node))
    if args and isinstance(args[0], External) and args[0].name == "builtins.list":
        m.store.set(("default", made.id), containers.new_list(m, Tuple((), True)))
    return made


def _sum(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    items = containers.contents(m, args[0]) if args else None
    traces = traces_of(*items.items) if isinstance(items, Tuple) else traces_of(*args)
    kinds = {item.kind for item in items.items if isinstance(item, Tensor)} if isinstance(items, Tuple) else set()
    return Tensor("loss", None, "", traces) if kinds == {"loss"} else Symbol(m.fresh(), "", split_of(*args), traces)


def _map(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if len(args) < 2:
        return m.symbol()
    known = elements.finite(m, args[1])
    found = [m.call(args[0], [item], {}, node) for item in known or [elements.element(m, args[1])]]
    return Tuple(tuple(found), known is None)


def _filter(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return args[1] if len(args) > 1 else m.symbol()


def _chain(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    merged = containers.merged_params(m, args)
    if merged is not None and args:
        return merged
    parts = [containers.contents(m, arg) for arg in args]
    items = [item for part in parts if isinstance(part, Tuple) for item in part.items]
    return Tuple(tuple(items), any(not isinstance(part, Tuple) or part.open for part in parts))


def _super(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    frame = m.frame
    cls = args[0].info if args and isinstance(args[0], Class) else frame.info.cls if frame.info else None
    bound = args[1] if len(args) > 1 else frame.bound
    return Super(bound, cls) if cls is not None and bound is not None else m.symbol()


def _field(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """The default of a dataclass's field."""
    if "default_factory" in kwargs:
        return m.call(kwargs["default_factory"], [], {}, node)
    return kwargs.get("default", m.symbol())


def _asdict(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`dataclasses.asdict(config)`, `vars(config)`: its attributes by name, those of dataclasses within it likewise."""
    made = args[0] if args else None
    if not isinstance(made, Object) or made.cls is None:
        return m.symbol()
    names = dict.fromkeys(name for base in reversed(made.cls.mro) for name in base.assigned if made.cls.dataclass)
    names |= dict.fromkeys(m.store.get(("attrs", made.id)) or ())
    values = {name: attributes.get(m, made, name, node) for name in names}
    for name, value in values.items():
        if isinstance(value, Object) and value.cls is not None and value.cls.dataclass:
            values[name] = _asdict(m, [value], {}, node)
    return containers.new_dict(m, Table(values))


def _nothing(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return m.symbol()


def _number(kind: type[float]) -> Callable[[Machine, Args, Kwargs, ast.AST], Value]:
    """`float(x)` and `int(x)` of whatever they are given: a single number."""

    def make(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        given = args[0] if len(args) == 1 else None
        if isinstance(given, Const) and isinstance(given.value, int | float) and abs(given.value) < 2.0**53:
            return Const(kind(given.value))
        return Symbol(m.fresh(), "", split_of(*args), shape=SCALAR)

    return make


HANDLERS: dict[str, Callable[[Machine, Args, Kwargs, ast.AST], Value]] = {
    "copy.deepcopy": _deepcopy,
    "functools.partial": _partial,
    "functools.wraps": _object("functools.wraps"),
    "builtins.next": _next,
    "builtins.enumerate": _object("builtins.enumerate"),
    "builtins.zip": _object("builtins.zip"),
    "builtins.range": _object("builtins.range"),
    "builtins.dict": _dict,
    "collections.OrderedDict": _dict,
    "collections.defaultdict": _defaultdict,
    "collections.namedtuple": definitions.named_tuple,
    "builtins.sum": _sum,
    "builtins.map": _map,
    "builtins.filter": _filter,
    "itertools.chain": _chain,
    "builtins.super": _super,
    "builtins.float": _number(float),
    "builtins.int": _number(int),
    "builtins.print": _nothing,
    "builtins.vars": _asdict,
    "dataclasses.asdict": _asdict,
    "dataclasses.field": _field,
}
