"""From parsed files to findings: interpret the program once, then let every check read its facts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial

from mlcheck.core.check import Check, list_checks
from mlcheck.core.dataclasses import dataclass
from mlcheck.core.finding import Finding
from mlcheck.lint import checks as package
from mlcheck.lint.facts import Facts
from mlcheck.lint.files.source import Source, Unreadable
from mlcheck.lint.interpret import roots
from mlcheck.lint.interpret.interpreter import Interpreter
from mlcheck.lint.program import Program
from mlcheck.lint.sites import Sites
from mlcheck.lint.versions import ANY, Versions
from mlcheck.lint.work.collector import without_cycle_collector
from mlcheck.lint.work.parts import EventsNeeded, SitesAlone, belongs
from mlcheck.lint.work.tasks import Part, Seen


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
class Left:
    """A rule that this part of the rules cannot answer after all."""

    rule: str


Answer = tuple[str, Finding] | Crash | Left | Seen


def analyse(
    sources: Sequence[Source | Unreadable],
    rules: Collection[str] | None = None,
    torch: Versions = ANY,
    called_elsewhere: frozenset[str] = frozenset(),
    part: Part = Part.ALL,
) -> Iterator[Answer]:
    """Findings as (rule name, finding), sorted by place and without duplicates, then the crashes and what was seen.

    `rules` limits which rules are asked; None asks all that have a check. `torch` is what they run on.
    `called_elsewhere` are names of functions that files which are not among the sources call.
    """
    crashes: list[Crash] = []
    with without_cycle_collector():
        program = Program([source for source in sources if isinstance(source, Source)], called_elsewhere)
        unreadable = [source for source in sources if isinstance(source, Unreadable)]
        unreadable += [s.outdated for s in sources if isinstance(s, Source) and s.outdated]
        sites = Sites(program)
        facts = None if part is Part.SITES else _interpreted(program, sites, torch, unreadable, crashes)
    asked = facts or SitesAlone(sites, torch, unreadable)
    found: list[tuple[str, Finding]] = []
    told: dict[str, dict[str, int]] = {}
    for listed in list_checks(package):
        if rules is not None and listed.rule not in rules:
            continue
        if listed.words and not any(map(sites.vocabulary.holding, listed.words)):
            told[listed.rule] = {listed.looks_at: 0}
            continue
        check = listed.load()
        if not belongs(check.run, part):
            continue
        sites.seen = {}
        said: dict[tuple[str, int, int], Finding] = {}
        try:
            _guarded(crashes, check.rule, "", partial(_ask, check, asked, said))
        except EventsNeeded:
            yield Left(check.rule)
            continue
        found += [(check.rule, finding) for finding in said.values()]
        told[check.rule] = sites.seen
    yield from sorted(found, key=lambda pair: (pair[1].location, pair[0]))
    yield from crashes
    yield Seen(facts.counts() if facts else {}, told)


def _interpreted(
    program: Program, sites: Sites, torch: Versions, unreadable: list[Unreadable], crashes: list[Crash]
) -> Facts:
    """What happens in the program."""
    machine = Interpreter(program, sites)
    machine.facts.torch = torch
    machine.facts.unreadable.extend(unreadable)
    for path, run in roots.plan(machine):
        _guarded(crashes, "", path, run)
    return machine.facts


def _ask(check: Check, facts: Facts | SitesAlone, said: dict[tuple[str, int, int], Finding]) -> None:
    for finding in check.run(facts):
        place = finding.location
        said.setdefault((place.path, place.line, place.column), finding)


def _guarded(crashes: list[Crash], rule: str, path: str, run: Callable[[], None]) -> None:
    try:
        run()
    except EventsNeeded:
        raise
    except Exception:
        import traceback

        crashes.append(Crash(rule, path, traceback.format_exc()))
