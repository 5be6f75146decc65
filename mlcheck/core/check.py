"""A check answers one rule. It is a module named like the rule, with one function called `check`."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from mlcheck.core.dataclasses import dataclass, field
from mlcheck.core.finding import Figure, Finding
from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.outcome import Outcome


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a probe or load check says of one measurement, before the engine dates and titles it.

    `summary` is the evidence with its numbers. A FAIL or WARN has at least one finding. `traceback` is the
    user's own, where their code raised.
    """

    outcome: Outcome
    summary: str = ""
    reason: str = ""
    findings: tuple[Finding, ...] = ()
    figures: tuple[Figure, ...] = ()
    numbers: dict[str, float] = field(default_factory=dict)
    looked_at: int = 0
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """The function that answers `rule`, found by its module's name.

    `looks_at` names what it judges (`backward pass`), as the module's LOOKS_AT says; without such, files.
    """

    rule: str
    run: Callable[..., Any]
    looks_at: str = ""


class Listed(NamedTuple):
    """A check that is not loaded yet.

    Where none of the `words` stands in a program there is nothing that it looks at; without words it is always asked.
    """

    rule: str
    module: str
    looks_at: str
    words: tuple[str, ...]

    def load(self) -> Check:
        return Check(self.rule, import_module(self.module).check, self.looks_at)


def find_checks(package: ModuleType) -> list[Check]:
    """Every module of a `checks` package, by name: adding a check edits no list."""
    return [Check(rule, module.check, getattr(module, "LOOKS_AT", "")) for rule, module in _modules(package)]


def checks_of(package: ModuleType, rules: Collection[str]) -> list[Check]:
    """Those of its modules that answer one of `rules`. No other is loaded: all of the probes take half a second."""
    return [listed.load() for listed in list_checks(package) if listed.rule in rules]


def rules_of(package: ModuleType) -> tuple[str, ...]:
    """The rules that the modules of a `checks` package answer, by their names alone: no file is opened."""
    return tuple(rule for rule, _, _ in _files(package))


@cache
def list_checks(package: ModuleType) -> tuple[Listed, ...]:
    """The same checks, none of them loaded: `LOOKS_AT` and `WORDS` are read from the source of their modules.

    To load a hundred modules takes lint as long as a file takes.
    """
    return tuple(_listed(rule, f"{package.__name__}.{name}", path) for rule, name, path in _files(package))


def _listed(rule: str, module: str, path: str) -> Listed:
    with open(path, "rb", buffering=0) as file:
        text = file.read()
    looks_at, words = (_strings(text, name) for name in (b"LOOKS_AT", b"WORDS"))
    return Listed(rule, module, "".join(looks_at), words)


def _strings(text: bytes, name: bytes) -> tuple[str, ...]:
    """The strings on the line that assigns the constant."""
    line = text.partition(b"\n" + name + b" = ")[2].partition(b"\n")[0]
    return tuple(each.decode() for each in line.split(b'"')[1::2])


@cache
def _modules(package: ModuleType) -> list[tuple[str, ModuleType]]:
    """The modules of a package by the names of their rules."""
    return [(rule, import_module(f"{package.__name__}.{name}")) for rule, name, _ in _files(package)]


def _files(package: ModuleType) -> list[tuple[str, str, str]]:
    """Rule, name and path of each module, in the order of the rules."""
    files = [(folder, name) for folder in package.__path__ for name in os.listdir(folder)]
    return sorted(
        (name[:-3].replace("_", "-"), name[:-3], os.path.join(folder, name))
        for folder, name in files
        if name.endswith(".py") and name[0] != "_"
    )
