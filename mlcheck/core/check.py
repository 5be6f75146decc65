"""A check answers one rule. It is a module named like the rule, with one function called `check`."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any

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
    found = []
    for module in pkgutil.iter_modules(package.__path__):
        check = import_module(f"{package.__name__}.{module.name}")
        found.append(Check(module.name.replace("_", "-"), check.check, getattr(check, "LOOKS_AT", "")))
    return sorted(found, key=lambda check: check.rule)
