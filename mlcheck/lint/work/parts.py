"""The rules in two parts that two processes can answer: those about what happens in a run of the program, the others.

The rules of the second part ask only what stands where in the text. That is read off their code; one that was
taken for such and asks for events all the same is left to be answered with the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from mlcheck.core.dataclasses import fields
from mlcheck.lint.facts import Facts
from mlcheck.lint.versions import Versions
from mlcheck.lint.work.tasks import Part

if TYPE_CHECKING:
    from mlcheck.lint.files.source import Unreadable
    from mlcheck.lint.sites import Sites

_STATIC = frozenset(["sites", "torch", "unreadable"])
_EVENTS = frozenset(each.name for each in fields(Facts)) - _STATIC | {"landmarks", "total", "counts"}


class EventsNeeded(Exception):
    """A rule asked for events where the program was not interpreted."""


class SitesAlone:
    """What stands for the facts of a program that was not interpreted."""

    def __init__(self, sites: Sites, torch: Versions, unreadable: Sequence[Unreadable]) -> None:
        self.sites, self.torch, self.unreadable = sites, torch, unreadable

    def __getattr__(self, name: str) -> Any:
        raise EventsNeeded(name)


def belongs(check: Callable[..., Any], part: Part) -> bool:
    """Whether that part answers the check."""
    return part is Part.ALL or reads_events(check) is (part is Part.EVENTS)


def reads_events(check: Callable[..., Any]) -> bool:
    """Whether the check, or a function that it hands the facts to, names events."""
    seen: set[FunctionType] = set()
    todo = [check]
    while todo:
        function = todo.pop()
        if not isinstance(function, FunctionType) or function in seen:
            continue
        seen.add(function)
        for name in _names(function.__code__):
            if name in _EVENTS:
                return True
            named = function.__globals__.get(name)
            if isinstance(named, FunctionType) and _takes_facts(named):
                todo.append(named)
    return False


def _takes_facts(function: FunctionType) -> bool:
    code = function.__code__
    return "facts" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _names(code: CodeType) -> Iterator[str]:
    """The attributes and globals that a function names, and those nested in it do."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)
