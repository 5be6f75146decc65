"""Ways a program can be put together: closures, registries, hooks, contexts, wrappers. It is read, or silence.

A comment `# error: rule` marks a line that must be reported; whatever else is reported is a false alarm.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mlcheck.core.outcome import Severity
from mlcheck.lint.run import LintSettings, run_lint

WAYS = sorted((Path(__file__).parent / "fixtures" / "ways").glob("*.py"))
MARK = re.compile(r"# error: ([\w-]+)")


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in WAYS])
def test_way(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = path.read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    Path("program.py").write_text(code, encoding="utf-8")
    report = run_lint(["."], LintSettings())
    assert not [result.traceback for result in report.results if result.traceback]
    found = {
        (result.rule, finding.location.line)
        for result in report.results
        if result.severity is not Severity.NOTE
        for finding in result.findings
    }
    marked = {(name, number) for number, line in enumerate(code.splitlines(), 1) for name in MARK.findall(line)}
    assert found == marked


def test_there_are_as_many_sound_programs_as_rules_are_broken() -> None:
    texts = [path.read_text("utf-8") for path in WAYS]
    assert sum(not MARK.search(text) for text in texts) >= 8
