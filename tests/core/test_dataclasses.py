"""Every class is made twice, by the standard module and by ours, and has to behave alike."""

from __future__ import annotations

import copy
import dataclasses as standard
import pickle
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from typing import Any, ClassVar

import pytest

from mlcheck.core import dataclasses as own
from mlcheck.core.finding import Finding, Location


class Plain:
    """What both decorators are put on: copies of it, as one of them may change the class."""

    known: ClassVar[int] = 3
    name: str
    size: int = 2
    tags: Any = None
    shown: Any = None

    @property
    def twice(self) -> int:
        return self.size * 2


class Derived:
    extra: int = 7

    def __repr__(self) -> str:
        return "derived"


def made(module: Any, base: type, *bases: type, **settings: Any) -> Any:
    """A class like `base`, decorated."""
    body = {name: value for name, value in vars(base).items() if name not in ("__dict__", "__weakref__")}
    body["__annotations__"] = dict(base.__annotations__)
    if base is Plain:
        body["tags"] = module.field(default_factory=list)
        body["shown"] = module.field(default=0, repr=False, compare=False)
    return module.dataclass(**settings)(type(base.__name__, bases, body))


def settings_of_both() -> Iterator[Any]:
    """All settings that the standard module allows."""
    for eq, frozen, slots, order, hashed in product((True, False), repeat=5):
        if (order and not eq) or (hashed and frozen):
            continue
        settings = {"eq": eq, "frozen": frozen, "slots": slots, "order": order, "unsafe_hash": hashed}
        yield pytest.param(settings, id=" ".join(name for name, chosen in settings.items() if chosen) or "none")


def outcome(act: Any, cls: Any) -> Any:
    try:
        return act(cls)
    except Exception as error:
        return type(error)


ACTIONS = {
    "repr": lambda cls: repr(cls("a", 1, [2], shown=3)),
    "default": lambda cls: (cls("a").size, cls("a").tags, cls("a").shown, cls("a").known, cls("a").twice),
    "own default": lambda cls: cls("a").tags is cls("a").tags,
    "missing": lambda cls: cls(),
    "too many": lambda cls: cls(1, 2, 3, 4, 5),
    "unknown": lambda cls: cls("a", other=1),
    "equal": lambda cls: cls("a", shown=1) == cls("a", shown=2),
    "unequal": lambda cls: cls("a") == cls("b"),
    "other kind": lambda cls: cls("a") == "a",
    "less": lambda cls: (cls("a") < cls("b"), cls("b") <= cls("a"), cls("a") > cls("b"), cls("a") >= cls("a")),
    "less than another kind": lambda cls: cls("a") < 3,
    "hash": lambda cls: hash(cls("a", 1, (), 2)) == hash(cls("a", 1, (), 3)),
    "assigned": lambda cls: setattr(cls("a"), "size", 3),
    "deleted": lambda cls: delattr(cls("a"), "size"),
    "added": lambda cls: isinstance(outcome(lambda cls: setattr(cls("a"), "more", 3), cls), type),
    "copied": lambda cls: vars(standard)["astuple"](copy.deepcopy(cls("a", 1, [2]))),
    "fields": lambda cls: [(f.name, f.type, f.repr, f.compare, f.init) for f in standard.fields(cls)],
    "asdict": lambda cls: standard.asdict(cls("a", 1, [2])),
    "replaced": lambda cls: repr(standard.replace(cls("a", 1), size=4)),
    "matched": lambda cls: cls.__match_args__,
    "slots": lambda cls: getattr(cls, "__slots__", None),
    "named": lambda cls: (cls.__name__, cls.__qualname__, cls.__module__, cls.__doc__),
}


@pytest.mark.parametrize("settings", list(settings_of_both()))
def test_it_behaves_as_a_standard_one(settings: dict[str, bool]) -> None:
    told, expected = (made(module, Plain, **settings) for module in (own, standard))
    for name, act in ACTIONS.items():
        assert outcome(act, told) == outcome(act, expected), name
        assert outcome(act, told) == outcome(act, expected), f"{name}, once more"


@pytest.mark.parametrize(
    "settings", [{"frozen": True}, {"slots": True}, {"eq": False}, {"frozen": True, "slots": True}]
)
def test_a_derived_class_has_the_attributes_of_its_base_too(settings: dict[str, bool]) -> None:
    told, expected = (made(module, Derived, made(module, Plain, **settings), **settings) for module in (own, standard))
    for act in (repr, vars(standard)["astuple"], standard.asdict):
        assert act(told("a", extra=1)) == act(expected("a", extra=1))
    assert (told("a") == told("a")) is (expected("a") == expected("a"))


def test_each_method_is_compiled_when_it_is_first_called() -> None:
    cls = made(own, Plain, order=True)
    before = {name: vars(cls)[name] for name in ("__init__", "__eq__", "__lt__", "__repr__")}
    assert cls("a") == cls("a")
    changed = {name for name, method in before.items() if vars(cls)[name] is not method}
    assert changed == {"__init__", "__eq__"}


def test_what_is_made_after_the_attributes_are_set_sees_them() -> None:
    @own.dataclass(slots=True)
    class Pair:
        one: int
        both: int = own.field(init=False)

        def __post_init__(self) -> None:
            self.both = self.one * 2

    assert Pair(4) == Pair(4)
    assert repr(Pair(4)).endswith("Pair(one=4, both=8)")


def test_a_default_that_all_instances_would_share_is_refused() -> None:
    with pytest.raises(ValueError, match="default_factory"):

        @own.dataclass
        class Shared:
            names: list[str] = []  # noqa: RUF012 - what is refused


def test_a_finding_survives_the_way_to_another_process() -> None:
    finding = Finding("wrong", Location("a.py", 3), numbers={"lr": 0.1})
    again = pickle.loads(pickle.dumps(finding))
    assert again == finding
    assert hash(again.location) == hash(finding.location)


def test_replace_changes_what_is_named_and_keeps_the_rest() -> None:
    assert own.replace(Location("a.py", 3, 4), line=5) == Location("a.py", 5, 4)
    with pytest.raises(TypeError):
        own.replace(Location(), lines=5)  # type: ignore[call-arg]


def test_it_loads_without_what_makes_the_standard_one_slow() -> None:
    code = "import sys, mlcheck.core.finding; print({'dataclasses', 'inspect'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_what_the_standard_module_keeps_is_made_once() -> None:
    @own.dataclass
    class Counted:
        number: int = 0

    assert [each.name for each in standard.fields(Counted)] == ["number"]
    assert Counted.__dataclass_fields__ is Counted(1).__dataclass_fields__  # type: ignore[attr-defined]
