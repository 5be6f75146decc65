"""What `--mlcheck` adds to a session: an item for each file and rule of lint, and one for each probe."""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import pytest

from mlcheck import project
from mlcheck.config import load_config
from mlcheck.core.extras import PROBE_NEEDS, require
from mlcheck.core.mistake import Mistake
from mlcheck.core.report import Report, Result
from mlcheck.lint.files.discover import discover
from mlcheck.pytest_plugin.nodes import LintFile, LintItem, NoTests, ProbeFile, ProbeItem
from mlcheck.pytest_plugin.runs import Runs

_TEST = re.compile(rb"^\s*(async\s+def test|def test|class Test|class \w+\(.*TestCase)", re.MULTILINE)


class Project:
    """The project's own settings, and the reports made with them."""

    def __init__(self, pytest_config: pytest.Config, runs: Runs) -> None:
        try:
            self._config = load_config(str(pytest_config.rootpath))
            self.lint_paths = project.lint_paths(self._config) or (self._config.root,)
            self.linted = frozenset(Path(path).resolve() for path, _ in discover(self.lint_paths)[0])
            self._options = project.probe_options(self._config)
            if self._options is not None:
                require("probe", PROBE_NEEDS)
        except Mistake as mistake:
            raise pytest.UsageError(str(mistake)) from None
        self._only = tuple(pytest_config.getini("mlcheck_only")) or self._config.only
        self._skip = (*pytest_config.getini("mlcheck_skip"), *self._config.skip)
        self._runs = runs
        self.entry = self._options.entry if self._options else ""
        self.root = (Path(self._config.root) if self.entry else pytest_config.rootpath).resolve()

    @cached_property
    def lint_report(self) -> Report:
        return self._runs.lint(self.lint_paths, project.lint_settings(self._config))

    def found_in(self, path: Path) -> list[Result]:
        """The results of the rules that found something in the file, with what they found there."""
        found = []
        for result in self.lint_report.results:
            here = tuple(each for each in result.findings if Path(each.location.path).resolve() == path)
            if here:
                found.append(replace(result, findings=here))
        return found

    @property
    def probed(self) -> tuple[str, ...]:
        """The rules that the probes answer; no probe is run to know them."""
        from mlcheck.probe.chosen import probe_rules

        return probe_rules(self._only, self._skip)

    @cached_property
    def probe_report(self) -> Report:
        assert self._options is not None
        return self._runs.probe(replace(self._options, only=self._only, skip=self._skip))

    @cached_property
    def waivers(self) -> list[Result]:
        from mlcheck.pytest_plugin.evidence import waivers

        return waivers(self._config)


class Collection:
    """Hooks that are there only with `--mlcheck`."""

    def __init__(self, config: pytest.Config, runs: Runs) -> None:
        self._project = Project(config, runs)

    def pytest_report_header(self) -> str:
        probed = f"; probe {self._project.entry}" if self._project.entry else "; nothing to probe: no `entry`"
        return f"mlcheck: lint {', '.join(self._project.lint_paths)}{probed}"

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        return self._node(file_path, parent.session)

    def pytest_pycollect_makemodule(self, module_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        """A file named on the command line is read, and not imported as well where it holds no test."""
        if module_path in self._project.linted and not _TEST.search(module_path.read_bytes()):
            return NoTests.from_parent(parent, path=module_path)
        return None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Add the whole project, unless the command line names what to collect."""
        if config.args_source is config.ArgsSource.ARGS:
            return
        collected = {item.path for item in items if isinstance(item, LintItem | ProbeItem)}
        for path in (*sorted(self._project.linted), self._project.root / "pyproject.toml"):
            if path not in collected and (node := self._node(path, session)):
                items.extend(session.genitems(node))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """A skip is told at the file it is about, not at the line of mlcheck that skipped."""
        report = yield
        if isinstance(item, LintItem | ProbeItem) and report.skipped and isinstance(report.longrepr, tuple):
            path, line, _ = item.reportinfo()
            reason = report.longrepr[2].removeprefix("Skipped: ")
            report.longrepr = str(path), (line or 0) + 1, f"Skipped: {item.name}: {reason}"
        return report

    def _node(self, path: Path, session: pytest.Session) -> pytest.Collector | None:
        """Our node for a file. It hangs from the session: under its package, pytest would import the package."""
        if path in self._project.linted:
            return LintFile.of(session, path, self._project)
        if self._project.entry and path == self._project.root / "pyproject.toml":
            return ProbeFile.of(session, path, self._project)
        return None
