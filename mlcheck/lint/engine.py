"""From parsed files to findings: interpret the program once, then let every check read its facts."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from mlcheck.core.check import find_checks
from mlcheck.core.finding import Finding
from mlcheck.lint import checks as package
from mlcheck.lint import roots
from mlcheck.lint.collector import without_cycle_collector
from mlcheck.lint.interpreter import Interpreter
from mlcheck.lint.program import Program
from mlcheck.lint.sites import Sites
from mlcheck.lint.source import Source, Unreadable


@dataclass(frozen=True, slots=True)
class Crash:
    """mlcheck's own failure in one rule (`rule`, or "" for the interpreter) at one file; the run went on."""

    rule: str
    path: str
    traceback: str

    @property
    def reason(self) -> str:
        error = self.traceback.strip().rpartition("\n")[2]
        if self.rule:
            return f"mlcheck itself failed: {error}"
        return f"mlcheck itself failed while it followed {self.path}, so findings there may be missing: {error}"


@dataclass(frozen=True, slots=True)
class Seen:
    """How many things of each kind were there to judge, by the words of the checks' LOOKS_AT."""

    counts: dict[str, int]


def analyse(
    sources: Sequence[Source | Unreadable],
    rules: Collection[str] | None = None,
    target_torch: str = "",
    called_elsewhere: frozenset[str] = frozenset(),
) -> Iterator[tuple[str, Finding] | Crash | Seen]:
    """Findings as (rule name, finding), sorted by place and without duplicates, then the crashes and what was seen.

    `rules` limits which rules are asked; None asks all that have a check. `target_torch` is the version to run on.
    `called_elsewhere` are names of functions that files which are not among the sources call.
    """
    crashes: list[Crash] = []
    found: dict[tuple[str, str, int, int], tuple[str, Finding]] = {}
    with without_cycle_collector():
        program = Program([source for source in sources if isinstance(source, Source)], called_elsewhere)
        machine = Interpreter(program, Sites(program))
        machine.facts.target_torch = target_torch
        for path, run in roots.plan(machine):
            _guarded(crashes, "", path, run)
    machine.facts.unreadable.extend(source for source in sources if isinstance(source, Unreadable))
    machine.facts.unreadable.extend(s.outdated for s in sources if isinstance(s, Source) and s.outdated)
    for check in find_checks(package):
        if rules is not None and check.rule not in rules:
            continue

        def ask(check: object = check) -> None:
            for finding in check.run(machine.facts):  # type: ignore[attr-defined]
                place = finding.location
                key = (check.rule, place.path, place.line, place.column)  # type: ignore[attr-defined]
                found.setdefault(key, (check.rule, finding))  # type: ignore[attr-defined]

        _guarded(crashes, check.rule, "", ask)
    yield from sorted(found.values(), key=lambda pair: (pair[1].location, pair[0]))
    yield from crashes
    yield Seen(machine.facts.counts())


def _guarded(crashes: list[Crash], rule: str, path: str, run: Callable[[], None]) -> None:
    try:
        run()
    except Exception:
        crashes.append(Crash(rule, path, traceback.format_exc()))
