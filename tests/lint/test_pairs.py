"""Programs in many styles, each broken in one place and sound: the broken one is reported there, the sound one is not.

In `fixtures/pairs` a line marked `# broken` or `# sound` stands in one of the two versions alone; `# error: rule` is
what must be reported of the broken one, at that line. `=== name` begins a program, `--- file.py` a file of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlcheck.core.outcome import Severity
from mlcheck.lint.run import LintSettings, run_lint

FOLDER = Path(__file__).parent / "fixtures" / "pairs"
NOTE = re.compile(r" *# (?:(broken|sound)(?:, )?)?(?:error: ([\w -]+))?$")

Version = dict[str, str]
Alarms = set[tuple[str, str, int]]


def pairs() -> Iterator[tuple[str, str]]:
    """The name and the text of each pair."""
    for path in sorted(FOLDER.glob("*.txt")):
        for text in re.split(r"^=== ", path.read_text("utf-8"), flags=re.MULTILINE)[1:]:
            name, _, body = text.partition("\n")
            yield f"{path.stem}: {name}", body


def version(body: str, kind: str) -> tuple[Version, Alarms]:
    """The files of one version, and what must be reported of it."""
    files: Version = {}
    alarms: Alarms = set()
    name, lines = "program.py", list[str]()
    for line in [*body.splitlines(), "--- "]:
        if line.startswith("--- "):
            if lines:
                files[name] = "\n".join(lines) + "\n"
            name, lines = line[4:], []
            continue
        note = NOTE.search(line)
        if note is not None and note[1] not in (None, kind):
            continue
        lines.append(line[: note.start()] if note is not None else line)
        if note is not None and kind == "broken":
            alarms |= {(rule, name, len(lines)) for rule in (note[2] or "").split()}
    return files, alarms


def reported(files: Version) -> Alarms:
    for name, code in files.items():
        compile(code, name, "exec")
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(code, encoding="utf-8")
    report = run_lint(["."], LintSettings())
    assert [result.traceback for result in report.results if result.traceback] == []
    return {
        (result.rule, finding.location.path, finding.location.line)
        for result in report.results
        if result.severity is not Severity.NOTE
        for finding in result.findings
    }


@pytest.mark.parametrize(("name", "body"), [pytest.param(*pair, id=pair[0]) for pair in pairs()])
def test_pair(name: str, body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("broken", "sound"):
        files, alarms = version(body, kind)
        assert bool(alarms) == (kind == "broken")
        (tmp_path / kind).mkdir()
        monkeypatch.chdir(tmp_path / kind)
        assert reported(files) == alarms, kind


def test_there_are_many_pairs_of_many_kinds() -> None:
    assert len(list(pairs())) >= 175
    assert len({name.partition(":")[0] for name, _ in pairs()}) >= 40
