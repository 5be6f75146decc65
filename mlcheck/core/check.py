"""A check answers one rule. It is a module named like the rule, with one function called `check`."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from mlcheck.core.dataclasses import dataclass, field
from mlcheck.core.finding import Figure, Finding
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


def find_checks(package: ModuleType) -> list[Check]:
    """Every module of a `checks` package, by name: adding a check edits no list."""
    return [Check(rule, module.check, getattr(module, "LOOKS_AT", "")) for rule, module in _modules(package)]


@cache
def _modules(package: ModuleType) -> list[tuple[str, ModuleType]]:
    """The modules of a package by the names of their rules: lint asks for them with every group of files."""
    files = (name for folder in package.__path__ for name in os.listdir(folder))
    rules = {name[:-3].replace("_", "-"): name[:-3] for name in files if name.endswith(".py") and name[0] != "_"}
    return [(rule, import_module(f"{package.__name__}.{rules[rule]}")) for rule in sorted(rules)]
