"""What a variable can hold, as far as the rules need to know; everything else is a Symbol."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from mlcheck.core.dataclasses import dataclass, field
from mlcheck.lint.words import words_of

if TYPE_CHECKING:
    from mlcheck.lint.facts import Forward, Place
    from mlcheck.lint.program import ClassInfo, FunctionInfo

Traces = frozenset["Forward | Cut"]
NO_TRACES: Traces = frozenset()


class Cut(NamedTuple):
    """A module call that the value was computed from, before the graph was cut at `place`."""

    place: Place
    forward: Forward


class Value:
    """Base of all abstract values. Never changed, but not frozen: that would make them three times as slow to make."""

    __slots__ = ()


# The arguments of a call by position and by name; the name "**" stands for more that are not known.
Args = list[Value]
Kwargs = dict[str, Value]


@dataclass(slots=True, unsafe_hash=True)
class Shape:
    """The trailing dimensions of a tensor: a number, a key that equal sizes share, or None. `open`: others may lead."""

    dims: tuple[Hashable, ...]
    open: bool = False

    @property
    def row(self) -> Shape | None:
        """The shape of `x[0]`."""
        return Shape(self.dims[1:]) if self.dims and not self.open else None


@dataclass(slots=True, unsafe_hash=True)
class Const(Value):
    value: Any


NONE, TRUE, FALSE = Const(None), Const(True), Const(False)


@dataclass(slots=True, unsafe_hash=True)
class Symbol(Value):
    """An unknown value with an identity: equal keys mean equal values on one path.

    `name` is the variable it came from, `split` the part of the data it belongs to (train, val, test),
    `traces` the module calls it was computed from.
    """

    key: Hashable
    name: str = ""
    split: str = ""
    traces: Traces = field(default=NO_TRACES, compare=False)
    shape: Shape | None = field(default=None, compare=False)


@dataclass(slots=True, unsafe_hash=True)
class Tensor(Value):
    """`kind`: raw (out of a linear layer), softmax, sigmoid, tanh, log_softmax, log_sigmoid, loss, scaled, other."""

    kind: str
    place: Place | None = None
    split: str = ""
    traces: Traces = field(default=NO_TRACES, compare=False)
    scaler: Value | None = None
    shape: Shape | None = field(default=None, compare=False)
    cut: bool = False


@dataclass(slots=True, eq=False)
class Object(Value):
    """An instance: of a project class (`cls`), or of a library class called `type`. Attributes live in the store."""

    type: str
    id: int
    cls: ClassInfo | None = None
    args: tuple[Value, ...] = ()
    kwargs: dict[str, Value] = field(default_factory=dict)
    place: Place | None = None


@dataclass(slots=True, unsafe_hash=True)
class Tuple(Value):
    """A sequence; `open` when more items may follow."""

    items: tuple[Value, ...]
    open: bool = False


@dataclass(slots=True, eq=False)
class Table(Value):
    """A dict's contents by constant key; `open` when other keys may exist."""

    items: dict[Any, Value]
    open: bool = False


@dataclass(slots=True, eq=False)
class Function(Value):
    """A project function with the scope it closes over and, for methods, the object it is bound to.

    `grad` is the gradient mode a decorator runs it under: on, off, unknown, or "" for the caller's.
    """

    info: FunctionInfo
    scope: Hashable
    bound: Value | None = None
    grad: str = ""
    place: Place | None = None
    static: bool = False


@dataclass(slots=True, unsafe_hash=True)
class Class(Value):
    info: ClassInfo


@dataclass(slots=True, unsafe_hash=True)
class Module(Value):
    """A project module."""

    name: str


@dataclass(slots=True, unsafe_hash=True)
class Imported(Value):
    """A name imported from a project module, looked up when it is used."""

    module: str
    name: str


@dataclass(slots=True, unsafe_hash=True)
class External(Value):
    """Something of a library, by its canonical qualified name."""

    name: str


@dataclass(slots=True, eq=False)
class Method(Value):
    """A method looked up on a value, not yet called. `after` is the class whose bases `super()` starts from."""

    owner: Value
    name: str
    after: ClassInfo | None = None


@dataclass(slots=True, eq=False)
class Partial(Value):
    function: Value
    args: tuple[Value, ...]
    kwargs: dict[str, Value]


@dataclass(slots=True, unsafe_hash=True)
class Select(Value):
    """`then` where the condition `key` holds, else `other`."""

    key: Hashable
    then: Value
    other: Value


@dataclass(slots=True, unsafe_hash=True)
class Saved(Value):
    """What `module.training` held: the modes the module may have been in."""

    modes: frozenset[Any]
    key: Hashable


@dataclass(slots=True, unsafe_hash=True)
class Params(Value):
    """Parameters of the modules `owners`; a single one when `one`, its gradient when `gradient`."""

    owners: frozenset[Hashable]
    one: bool = False
    gradient: bool = False


@dataclass(slots=True, eq=False)
class Super(Value):
    bound: Value
    after: ClassInfo


def traces_of(*values: Value) -> Traces:
    """The module calls that any of these was computed from."""
    found = NO_TRACES
    for value in values:
        if isinstance(value, Tensor | Symbol):
            found = found | value.traces if found else value.traces
        elif isinstance(value, Tuple):
            found |= traces_of(*value.items)
        elif isinstance(value, Select):
            found |= traces_of(value.then, value.other)
    return found


def live(traces: Traces) -> frozenset[Forward]:
    """The module calls that a gradient still reaches."""
    return frozenset(trace for trace in traces if not isinstance(trace, Cut))


def split_of(*values: Value) -> str:
    """The part of the data these belong to, when they agree."""
    splits = {value.split for value in values if isinstance(value, Tensor | Symbol) and value.split}
    for value in values:
        if isinstance(value, Tuple):
            splits |= {split_of(*value.items)} - {""}
    return splits.pop() if len(splits) == 1 else ""


def owner_key(value: Value) -> Hashable:
    """The identity under which a module's or optimizer's state is kept."""
    return value.id if isinstance(value, Object) else value.key if isinstance(value, Symbol) else None


def with_name(value: Value, name: str) -> Value:
    """A nameless symbol takes its variable's name, and the split that says: not of what is made up (`zeros(1, 3)`)."""
    if isinstance(value, Symbol) and not value.name:
        said = "" if isinstance(value.key, tuple) and value.key[:1] == ("made up",) else split_of_name(name)
        return Symbol(value.key, name, value.split or said, value.traces, value.shape)
    return value


_EVALUATION = {"val": "val", "valid": "val", "validation": "val", "dev": "val", "test": "test", "eval": "val"}
_EVALUATION |= {"testing": "test", "evaluation": "val", "holdout": "test", "heldout": "test", "vali": "val"}
_BATCHES = frozenset(["loader", "set", "data", "ds", "dl", "dataset", "iter", "dataloader"])
_EVALUATION |= {stem + word: _EVALUATION[stem] for stem in ("test", "valid", "val") for word in _BATCHES}
_SHORT = {"validate": "val", "tr": "train", "va": "val", "te": "test"}  # only of what holds samples: `va_loader`
_NUMBERS = frozenset(["interval", "freq", "frequency", "every", "ratio", "fraction", "size", "case", "cases"])


@lru_cache(4096)
def split_of_name(name: str) -> str:
    """`val_loader` -> val, `x_test` -> test, `trainloader` -> train; `data`, `val_interval`, `test_cases` -> ""."""
    words = words_of(name)
    if words and words[-1] in _NUMBERS:
        return ""
    if any(word == "trn" or word.startswith("train") for word in words):
        return "train"
    for word in words:
        if word in _EVALUATION or (word in _SHORT and words[-1] in _BATCHES):
            return _EVALUATION.get(word) or _SHORT[word]
    return ""
