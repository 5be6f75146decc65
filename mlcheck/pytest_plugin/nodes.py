"""The nodes that `--mlcheck` adds to pytest's tree."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pytest

from mlcheck.core.mistake import Mistake
from mlcheck.core.outcome import Outcome
from mlcheck.core.report import Result
from mlcheck.pytest_plugin.evidence import answered, judge, told

if TYPE_CHECKING:
    from mlcheck.pytest_plugin.collection import Project

_ALARMS = (Outcome.FAIL, Outcome.WARN, Outcome.ERROR)


class _ProjectFile(pytest.File):
    """A file that is looked at as part of the project."""

    project: Project

    @classmethod
    def of(cls, session: pytest.Session, path: Path, project: Project) -> Self:
        node: Self = cls.from_parent(session, path=path)
        node.project = project
        return node


class LintFile(_ProjectFile):
    """A Python file that is read, never imported."""

    def collect(self) -> Iterator[pytest.Item]:
        try:
            found = self.project.found_in(self.path.resolve())
        except Mistake as mistake:
            raise self.CollectError(str(mistake)) from None
        alarms = [result for result in found if result.outcome in _ALARMS]
        if not alarms:
            yield LintItem.from_parent(self, name="lint", found=None)
        for result in alarms:
            yield LintItem.from_parent(self, name=f"lint:{result.rule}", found=result)


class NoTests(pytest.File):
    """Stands for a module without tests, so that pytest does not import it to find that out."""

    def collect(self) -> Iterator[pytest.Item]:
        return iter(())


class LintItem(pytest.Item):
    """What one rule found in one file; or, without `found`, that no rule found anything."""

    def __init__(self, *, name: str, parent: LintFile, found: Result | None) -> None:
        super().__init__(name, parent)
        self._project, self._found = parent.project, found
        self.add_marker("mlcheck")
        self.add_marker("mlcheck_lint")

    def runtest(self) -> None:
        if self._found is None:
            return
        item = answered([self._found, *self._project.waivers], self._found.rule)
        if item.outcome is Outcome.WARN:
            pytest.fail(told(item), pytrace=False)
        judge(item)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        line = self._found.findings[0].location.line - 1 if self._found else None
        return self.path, line, self.name


class ProbeFile(_ProjectFile):
    """The pyproject.toml that names an entry point."""

    def collect(self) -> Iterator[pytest.Item]:
        try:
            rules = self.project.probed
        except Mistake as mistake:
            raise self.CollectError(str(mistake)) from None
        for rule in rules:
            yield ProbeItem.from_parent(self, name=f"probe:{rule}", rule=rule)


class ProbeItem(pytest.Item):
    """One question that running the entry point answers."""

    def __init__(self, *, name: str, parent: ProbeFile, rule: str) -> None:
        super().__init__(name, parent)
        self._project, self._rule = parent.project, rule
        self.add_marker("mlcheck")
        self.add_marker("mlcheck_probe")

    def runtest(self) -> None:
        try:
            judge(answered([*self._project.probe_report.results, *self._project.waivers], self._rule))
        except Mistake as mistake:
            pytest.fail(str(mistake), pytrace=False)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, self.name
