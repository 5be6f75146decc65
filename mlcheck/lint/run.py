"""From paths to a report: find the files, read them, ask the rules, drop what the code answers, sum up."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import mlcheck.lint.checks
from mlcheck import __version__
from mlcheck.core.catalog import Catalog
from mlcheck.core.check import find_checks
from mlcheck.core.finding import Finding, Location
from mlcheck.core.report import Report
from mlcheck.lint.answers import Answers
from mlcheck.lint.discover import PythonFile, discover
from mlcheck.lint.engine import Crash, Seen, analyse
from mlcheck.lint.select import LintSettings, Selection
from mlcheck.lint.source import Source, Unreadable, parse
from mlcheck.lint.suppress import Suppressions

__all__ = ["LintSettings", "run_lint"]

_NOT_READ = "unreadable-file"


def run_lint(
    paths: Sequence[str], settings: LintSettings, progress: Callable[[int, int], None] | None = None
) -> Report:
    """Lint the files that `paths` mean. `progress` is told how many of them are read.

    Raises MissingPath, UnknownRule and NotALintRule; nothing that is in a file stops the run.
    """
    started, clock = _now(), time.perf_counter()
    catalog, checks = Catalog(), find_checks(mlcheck.lint.checks)
    selection = Selection(settings, catalog, {check.rule for check in checks})
    files, notices = discover(paths)
    reading = _Reading(Answers(", ".join(paths), len(files)), selection)
    if files:
        reading.run(files, progress)
    else:
        notices.append(f"{', '.join(paths)}: no Python files here")
    notices += reading.suppressions.notices(catalog, selection.rules, ran_all=not selection.narrowed)
    return Report(
        command="lint",
        subject=", ".join(paths),
        results=tuple(reading.answers.result(check, catalog) for check in checks if check.rule in selection.rules),
        environment={"mlcheck": __version__, "python": sys.version.split()[0], "files linted": str(len(files))},
        started=started,
        seconds=time.perf_counter() - clock,
        notices=tuple(notices),
    )


def _now() -> str:
    """ISO 8601 with the zone, as datetime would write it; datetime takes longer to load than a file to lint."""
    text = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    return f"{text[:-2]}:{text[-2:]}"


class _Reading:
    """One pass over the files: what is kept of it are answers and suppressions, not syntax trees."""

    def __init__(self, answers: Answers, selection: Selection) -> None:
        self.answers = answers
        self.suppressions = Suppressions()
        self._selection = selection
        self._not_ascii: dict[str, list[str]] = {}

    def run(self, files: Sequence[PythonFile], progress: Callable[[int, int], None] | None) -> None:
        """Ask the selected rules, and keep by rule what they say."""
        with _without_cycle_collector():
            for answer in analyse(list(self._read(files, progress)), self._selection.rules):
                if isinstance(answer, Seen):
                    self.answers.seen = answer.counts
                elif isinstance(answer, Crash):
                    self.answers.tracebacks.setdefault(answer.rule or _NOT_READ, []).append(answer.traceback)
                else:
                    self._take(*answer)

    def _read(
        self, files: Sequence[PythonFile], progress: Callable[[int, int], None] | None
    ) -> Iterator[Source | Unreadable]:
        for number, (path, module) in enumerate(files, 1):
            yield self._source(path, module)
            if progress:
                progress(number, len(files))

    def _source(self, path: str, module: str) -> Source | Unreadable:
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError as error:
            return Unreadable(path, 0, 0, f"cannot be read: {error.strerror}")
        self.suppressions.read(path, data)
        source = parse(path, data, module)
        if isinstance(source, Source) and not data.isascii():
            self._not_ascii[path] = source.text.split("\n")
        return source

    def _take(self, rule: str, finding: Finding) -> None:
        place = finding.location
        if rule in self._selection.ignored_in(place.path) or self.suppressions.hides(rule, place.path, place.line):
            return
        related = tuple(self._in_characters(other) for other in finding.related)
        located = replace(finding, location=self._in_characters(place), related=related)
        self.answers.findings.setdefault(rule, []).append(located)

    def _in_characters(self, place: Location) -> Location:
        """Python's parser counts columns in UTF-8 bytes; everybody else counts characters."""
        if lines := self._not_ascii.get(place.path):
            return replace(
                place,
                column=_characters(lines, place.line, place.column),
                end_column=_characters(lines, place.end_line, place.end_column),
            )
        return place


def _characters(lines: list[str], line: int, column: int) -> int:
    """The column in characters of a column in bytes, both from 1."""
    if not 0 < line <= len(lines) or column < 1:
        return column
    return len(lines[line - 1].encode("utf-8")[: column - 1].decode("utf-8", "ignore")) + 1


@contextmanager
def _without_cycle_collector() -> Iterator[None]:
    """A syntax tree has a million objects and no cycles: looking for some would take half of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
