"""The part of `dataclasses` that lint is made of, without what that takes to load: lint starts on every save.

The standard one writes and compiles some six methods for each class and reads signatures, a fourth of the time that
lint takes for one file. Here a method is compiled when it is first called. What `dataclasses` itself is asked about
such a class (`asdict`, `fields`, `is_dataclass`) it answers as for one of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from mlcheck.core.named_tuples import NamedTuple

if TYPE_CHECKING:
    from dataclasses import dataclass, field, fields, replace

__all__ = ["dataclass", "field", "fields", "replace"]

_UNSET: Any = object()
_ORDER = {"__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}
_COMPARISONS = {"__eq__": "==", **_ORDER}


class Field(NamedTuple):
    """One attribute, as its class declares it."""

    default: Any = _UNSET
    default_factory: Any = _UNSET
    init: bool = True
    repr: bool = True
    compare: bool = True
    name: str = ""


def _dataclass(
    cls: type | None = None,
    *,
    eq: bool = True,
    order: bool = False,
    unsafe_hash: bool = False,
    frozen: bool = False,
    slots: bool = False,
) -> Any:
    hashed = unsafe_hash or (eq and frozen)
    methods = ["__init__", "__repr__", *["__eq__"] * eq, *["__hash__"] * hashed, *[*_ORDER] * order]

    def make(cls: type) -> type:
        own = [
            _declared(cls, name) for name, hint in cls.__annotations__.items() if not str(hint).startswith("ClassVar")
        ]
        everything = {each.name: each for each in (*getattr(cls, "__fields__", ()), *own)}
        added: dict[str, Any] = {name: _compiled_later(name) for name in methods}
        if eq and not hashed:
            added["__hash__"] = None
        if frozen:
            added |= {"__setattr__": _refuse, "__delattr__": _refuse, "__setstate__": _restore}
        added = {name: value for name, value in added.items() if name not in cls.__dict__}
        added["__fields__"] = tuple(everything.values())
        added["__match_args__"] = tuple(each.name for each in everything.values() if each.init)
        added["__dataclass_fields__"] = _STANDARD
        return (_with_slots if slots else _in_place)(cls, own, added)

    return make if cls is None else make(cls)


def _declared(cls: type, name: str) -> Field:
    given = cls.__dict__.get(name, _UNSET)
    if isinstance(given, Field):
        return given._replace(name=name)
    if type(given).__hash__ is None:
        raise ValueError(f"{cls.__name__}.{name}: all instances would share this default; use default_factory")
    return Field(given, name=name)


def _with_slots(cls: type, own: list[Field], added: dict[str, Any]) -> type:
    names = tuple(each.name for each in own)
    kept = {name: value for name, value in cls.__dict__.items() if name not in {*names, "__dict__", "__weakref__"}}
    made = type(cls)(cls.__name__, cls.__bases__, {**kept, **added, "__slots__": names})
    made.__qualname__ = cls.__qualname__
    return made


def _in_place(cls: type, own: list[Field], added: dict[str, Any]) -> type:
    for each in own:
        if each.default is not _UNSET:
            setattr(cls, each.name, each.default)
        elif each.name in cls.__dict__:
            delattr(cls, each.name)
    for name, value in added.items():
        setattr(cls, name, value)
    return cls


def _compiled_later(name: str) -> Callable[..., Any]:
    """A method that puts the one it stands for in its own place."""

    def first(self: Any, *given: Any, **named: Any) -> Any:
        cls = next(base for base in type(self).__mro__ if base.__dict__.get(name) is first)
        made = _compiled(cls, name)
        setattr(cls, name, made)
        return made(self, *given, **named)

    return first


def _compiled(cls: Any, name: str) -> Callable[..., Any]:
    values: dict[str, Any] = {"_unset": _UNSET, "_put": object.__setattr__}
    exec(_written(cls, name, values), values)  # noqa: S102 - made of the names in our own classes
    made: Callable[..., Any] = values[name]
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.{name}", cls.__module__
    return made


def _written(cls: Any, name: str, values: dict[str, Any]) -> str:
    """The text of a method. `values` takes what it names."""
    every: tuple[Field, ...] = cls.__fields__
    if name == "__init__":
        parameters = ", ".join(["self", *(_parameter(each, values) for each in every if each.init)])
        body = [*_assignments(every, cls.__setattr__ is _refuse), *_afterwards(cls)]
        return f"def __init__({parameters}):\n " + "\n ".join(body)
    if name == "__repr__":
        shown = ", ".join(f"{each.name}={{self.{each.name}!r}}" for each in every if each.repr)
        return f"def __repr__(self):\n return f'{{self.__class__.__qualname__}}({shown})'"
    compared = [each.name for each in every if each.compare]
    own, theirs = ("(" + "".join(f"{whose}.{each}, " for each in compared) + ")" for whose in ("self", "other"))
    if name == "__hash__":
        return f"def __hash__(self):\n return hash({own})"
    answer = f"{own} {_COMPARISONS[name]} {theirs}"
    return f"def {name}(self, other):\n return {answer} if other.__class__ is self.__class__ else NotImplemented"


def _parameter(each: Field, values: dict[str, Any]) -> str:
    if each.default_factory is not _UNSET:
        values[f"_make_{each.name}"] = each.default_factory
        return f"{each.name}=_unset"
    if each.default is not _UNSET:
        values[f"_default_{each.name}"] = each.default
        return f"{each.name}=_default_{each.name}"
    return each.name


def _assignments(every: tuple[Field, ...], frozen: bool) -> Iterator[str]:
    for each in every:
        if each.default_factory is not _UNSET:
            value = f"_make_{each.name}()" + (f" if {each.name} is _unset else {each.name}" if each.init else "")
        elif each.init:
            value = each.name
        else:
            continue
        yield f"_put(self, {each.name!r}, {value})" if frozen else f"self.{each.name} = {value}"


def _afterwards(cls: type) -> list[str]:
    return ["self.__post_init__()"] if hasattr(cls, "__post_init__") else ["pass"]


def _refuse(_: Any, name: str, *__: Any) -> None:
    """In place of the methods by which attributes are set and deleted."""
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to or delete field {name!r}")


def _restore(self: Any, state: Any) -> None:
    """What unpickling and copying do with a frozen instance."""
    for held in state if isinstance(state, tuple) else (state,):
        for name, value in (held or {}).items():
            object.__setattr__(self, name, value)


def _fields(cls: Any) -> tuple[Field, ...]:
    found: tuple[Field, ...] = cls.__fields__
    return found


class _Standard:
    """Stands for what the standard module keeps of a class, and has it made when that is first looked at."""

    def __get__(self, instance: object, cls: type) -> dict[str, Any]:
        import dataclasses

        hints: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            hints |= getattr(base, "__annotations__", {})
        told = []
        for each in _fields(cls):
            settings = {key: value for key, value in each._asdict().items() if value is not _UNSET and key != "name"}
            told.append((each.name, hints[each.name], dataclasses.field(**settings)))
        made: dict[str, Any] = dataclasses.make_dataclass(cls.__name__, told).__dataclass_fields__  # type: ignore[attr-defined]
        cls.__dataclass_fields__ = made  # type: ignore[attr-defined]  # a report looks at it hundreds of times
        return made


_STANDARD = _Standard()

if not TYPE_CHECKING:
    dataclass, field, fields = _dataclass, Field, _fields

    def replace(instance: Any, /, **changes: Any) -> Any:
        return type(instance)(**{name: getattr(instance, name) for name in instance.__match_args__} | changes)
