"""New objects of project classes. A module's constructor is followed when somebody looks inside, and not before."""

from __future__ import annotations

import ast

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.facts import Mode, Turn
from mlcheck.lint.interpret import containers, habits
from mlcheck.lint.interpret.frames import DeadPath, Frame, Sink
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.program import ClassInfo, FunctionInfo
from mlcheck.lint.python import attributes
from mlcheck.lint.pytorch import gradients, modes, schedulers
from mlcheck.lint.touched import Touched
from mlcheck.lint.values import Args, Const, Function, Kwargs, Object, Symbol, Table, Tuple, Value

_ENUMERATIONS = frozenset(["enum.Enum", "enum.StrEnum", "enum.IntEnum"])
_PLAIN_BASES = frozenset(["torch.nn.Module", "lightning.pytorch.LightningModule", "builtins.object", "abc.ABC"])


_MAX_NESTED = 6
_TUPLE = "typing.NamedTuple"


class Pending(NamedTuple):
    """A constructor call that waits: what it was given, and the moment it stands for."""

    init: FunctionInfo
    args: Args
    kwargs: Kwargs
    node: ast.AST
    when: Turn
    stamp: float


def instantiate(m: Machine, info: ClassInfo, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """A new object of a project class. The constructor of a module waits until the module is looked into."""
    if len(args) == 1 and isinstance(args[0], Const | Symbol) and not info.libraries.isdisjoint(_ENUMERATIONS):
        return args[0]  # `Mode("raw")`: a member stands for its value
    made = Object(info.qualname, m.fresh(), info, tuple(args), kwargs, m.place(node))
    module = modes.is_module(made)
    if module:
        modes.born(m, made)
    init = info.find("__init__")
    if init is not None:
        values = [*args, *kwargs.values()]
        if module and info.libraries <= _PLAIN_BASES and not any(_is_thing(m, value) for value in values):
            m.store.set(("pending", made.id), Pending(init, args, kwargs, node, m.now(), m.stamp()))
        else:
            m.follow(Function(init, init.scope, made), args, kwargs, node)
    elif info.dataclass:
        fields = [name for base in reversed(info.mro) for name in base.assigned]
        left = [(name, m.symbol(name)) for name in fields[len(args) :]] if "**" in kwargs else []
        given = [*left, *zip(fields, args, strict=False), *kwargs.items()]
        for name, value in given:
            m.store.set(("a", made.id, name), value)
        _make_fields(m, made, info, {name for name, _ in given})
        if _TUPLE in info.libraries and len(given) == len(fields):
            m.store.set(("items", made.id), Tuple(tuple(dict(given)[name] for name in fields)))
    if "**" in kwargs and not module and any(base.node.decorator_list for base in info.mro):
        for name in sorted(name for base in info.mro for name in base.annotated):
            if m.store.get(("a", made.id, name)) is None:  # a field by some decorator; what is written is its default
                m.store.set(("a", made.id, name), m.symbol(name))
    if gradients.is_optimizer(m, made):
        gradients.register(m, made)
    schedulers.derived(m, made, info, node)
    return made


def _make_fields(m: Machine, made: Object, info: ClassInfo, given: set[str]) -> None:
    """`field(default_factory=...)`: made anew for each object."""
    for base in info.mro:
        for name, default in base.assigned.items():
            if name not in given and isinstance(default, ast.Call):
                given.add(name)
                with attributes.InScope(m, base):
                    m.store.set(("a", made.id, name), m.evaluate(default))


def _is_thing(m: Machine, value: Value) -> bool:
    """Whether the constructor may change what it is given, or be given what somebody else goes on to change."""
    if isinstance(value, Object):
        items = containers.contents(m, value)
        return _is_thing(m, items) if items is not None and value.cls is None else not value.type.startswith("builtins")
    if isinstance(value, Tuple):
        return any(_is_thing(m, item) for item in value.items)
    if isinstance(value, Table):
        return any(_is_thing(m, item) for item in value.items.values())
    if isinstance(value, Symbol):
        return modes.known_as_module(m, value) or gradients.is_optimizer(m, value)
    return False


def ready(m: Machine, made: Object) -> None:
    """Follow the constructor that waits for this module, as of the moment when it was called.

    Calls of layers in it, to learn a shape, are no evaluation; a constructor that never returns leaves
    its attributes unknown.
    """
    pending: Pending | None = m.store.get(("pending", made.id)) or None
    if pending is None:
        return
    mark = m.store.mark()
    m.store.set(("pending", made.id), False)
    if m.building >= _MAX_NESTED:
        _unseen(m, made)
        return
    frames, loops, touched, moment, grad = m.frames, m.loops, m.touched, m.moment, m.grad
    bottom = Frame(pending.init.module, m.program.name_of(pending.init.module), Sink(m.store.mark()), m.fresh())
    m.frames, m.loops, m.touched, m.moment = [*frames[:1], bottom], [], Touched(), (pending.when, pending.stamp)
    m.inside_module += 1
    m.building += 1
    try:
        init = Function(pending.init, pending.init.scope, made)
        m.follow(init, pending.args, pending.kwargs, pending.node)
    except DeadPath:
        pass
    finally:
        m.frames, m.loops, m.touched, m.moment = frames, loops, touched, moment
        m.inside_module -= 1
        m.building -= 1
    m.store.set(("grad",), grad)
    if habits.is_abandoned(m, pending.init):
        _unseen(m, made)
    m.store.settle(mark, made.id)


def _unseen(m: Machine, made: Object) -> None:
    """A constructor that was not followed to its end may have chosen a mode."""
    if made.cls is not None and any("eval(" in info.module.text_of(info.node) for info in made.cls.mro):
        m.store.set(("mode", made.id), frozenset([Mode("unknown", None, None, m.stamp())]))
