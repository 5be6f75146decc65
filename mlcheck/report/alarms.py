"""What a forge can show beside the code: findings with a path below its root, a line, a level and a fingerprint."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from hashlib import sha256

from mlcheck.core.dataclasses import dataclass, replace
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.core.report import Item, Report, Result
from mlcheck.core.source_text import is_code
from mlcheck.report.excerpt import Sources

_LEVEL = {Outcome.FAIL: "error", Outcome.WARN: "warning"}


@dataclass(frozen=True, slots=True)
class Alarm:
    """One finding. `location.path` is relative to the root, with slashes; `waived` says why it does not count."""

    result: Result
    finding: Finding
    location: Location
    fingerprint: str
    waived: str = ""

    @property
    def level(self) -> str:
        """error, warning or note: what a probe only suspects is a warning, whatever its rule's severity."""
        return _LEVEL.get(self.result.outcome, "note")


def alarms(report: Report, root: str, code: Sources) -> list[Alarm]:
    """All findings that stand, in the order of the code; fingerprints are unique.

    A finding about no line is placed on the entry point, where its file is found; else its path is empty.
    """
    entry = _entry_place(report, code)
    found = [alarm for item in report.items() for alarm in _of_item(item, root, entry)]
    found.sort(key=lambda alarm: (alarm.location, alarm.result.rule))
    seen: dict[str, int] = {}
    unique = []
    for alarm in found:
        again = seen[alarm.fingerprint] = seen.get(alarm.fingerprint, 0) + 1
        unique.append(alarm if again == 1 else replace(alarm, fingerprint=_digest(alarm.fingerprint, str(again))))
    return unique


def broken(report: Report) -> list[Result]:
    """The results of checks that did not come to an end."""
    return [result for result in report.results if result.outcome is Outcome.ERROR]


def below(path: str, root: str) -> str:
    """`path` from `root`, with slashes; a path outside of it stays absolute."""
    absolute = os.path.abspath(path)
    relative = os.path.relpath(absolute, os.path.abspath(root))
    return (absolute if relative.split(os.sep)[0] == os.pardir else relative).replace(os.sep, "/")


def _of_item(item: Item, root: str, entry: Location) -> Iterator[Alarm]:
    """What decided, and beside an alarm or a waiver also what else raised one; an overruled alarm is none."""
    waived = item.decided.reason if item.outcome is Outcome.WAIVED else ""
    alarmed = item.outcome in _LEVEL or bool(waived)
    for result in item.results:
        if result is item.decided or (alarmed and result.outcome in _LEVEL):
            for finding in result.findings:
                yield _alarm(result, finding, root, entry, waived)


def _alarm(result: Result, finding: Finding, root: str, entry: Location, waived: str) -> Alarm:
    place = finding.location if finding.location.path else replace(entry, symbol=finding.location.symbol)
    located = replace(place, path=below(place.path, root)) if place.path else place
    fingerprint = finding.fingerprint or _digest(result.rule, located.path, located.symbol)
    return Alarm(result, finding, located, fingerprint, waived)


def _digest(*parts: str) -> str:
    return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _entry_place(report: Report, code: Sources) -> Location:
    """The line that defines the entry point `module:Name` of a report, a script's first, when its file is here."""
    if report.command == "lint":
        return Location()
    where, _, name = report.subject.partition(":")
    dotted = where.replace(".", "/")
    initial = "__init__" if name else "__main__"
    for path in (where,) if is_code(where) else (f"{dotted}.py", f"{dotted}/{initial}.py"):
        if lines := code(path):
            definition = re.compile(rf"\s*(?:class|(?:async\s+)?def)\s+{re.escape(name)}\b")
            numbers = (number for number, line in enumerate(lines, 1) if name and definition.match(line))
            return Location(path, next(numbers, 1))
    return Location()
