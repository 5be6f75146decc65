"""What is shown beside the code: where it stands, how grave it is, and that it is known again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import By, Outcome, Severity, Stage
from mlcheck.core.report import Report, Result
from mlcheck.report.alarms import alarms, below, broken

CODE = {"model.py": ["import torch", "", "class Other: ...", "class Net(torch.nn.Module):"], "pack/net.py": ["x = 1"]}


def result(rule: str = "r", by: By = By.LINT, outcome: Outcome = Outcome.FAIL, *findings: Finding) -> Result:
    return Result(rule, "Title", Stage.TRAINING, Severity.ERROR, by, outcome, findings=findings)


def shown(*results: Result, subject: str = "model:Net", command: str = "check", root: str = "."):  # type: ignore[no-untyped-def]
    return alarms(Report(command, subject, results), root, lambda path: CODE.get(path, []))


def test_a_finding_without_a_file_stands_at_the_entry_point() -> None:
    (alarm,) = shown(result("r", By.PROBE, Outcome.FAIL, Finding("m", Location(symbol="net.0"))))
    assert (alarm.location.path, alarm.location.line, alarm.location.symbol) == ("model.py", 4, "net.0")


@pytest.mark.parametrize(
    ("subject", "place"),
    [
        ("pack.net:Absent", ("pack/net.py", 1)),
        ("model.py:Net", ("model.py", 4)),
        ("gone:Net", ("", 0)),
        ("x", ("", 0)),
        ("model.py", ("model.py", 1)),
        ("pack.net", ("pack/net.py", 1)),
    ],
)
def test_the_entry_point_is_found_where_its_file_is(subject: str, place: tuple[str, int]) -> None:
    (alarm,) = shown(result("r", By.PROBE, Outcome.FAIL, Finding("m")), subject=subject)
    assert (alarm.location.path, alarm.location.line) == place


def test_an_overruled_alarm_is_none() -> None:
    read = result("r", By.LINT, Outcome.FAIL, Finding("read", Location("a.py", 1)))
    seen = result("r", By.PROBE, Outcome.PASS)
    assert shown(read, seen) == []


def test_both_ways_of_seeing_one_defect_are_shown() -> None:
    read = result("r", By.LINT, Outcome.FAIL, Finding("read", Location("a.py", 1)))
    seen = result("r", By.PROBE, Outcome.FAIL, Finding("seen", Location("b.py", 1)))
    assert [alarm.finding.message for alarm in shown(read, seen)] == ["read", "seen"]


def test_what_is_waived_says_why() -> None:
    read = result("r", By.LINT, Outcome.WARN, Finding("read", Location("a.py", 1)))
    waiver = replace(result("r", By.SIGN_OFF, Outcome.WAIVED), reason="waived by Ada")
    (alarm,) = shown(read, waiver)
    assert (alarm.finding.message, alarm.waived) == ("read", "waived by Ada")


@pytest.mark.parametrize(
    ("outcome", "level"), [(Outcome.FAIL, "error"), (Outcome.WARN, "warning"), (Outcome.PASS, "note")]
)
def test_the_level_is_what_came_out(outcome: Outcome, level: str) -> None:
    (alarm,) = shown(result("r", By.LINT, outcome, Finding("m", Location("a.py", 1))))
    assert alarm.level == level


def test_fingerprints_are_kept_made_and_unique() -> None:
    place = Location("a.py", 3)
    kept, again = Finding("m", place, fingerprint="f"), Finding("m", Location("a.py", 9), fingerprint="f")
    made = [Finding("m", place), Finding("other words", Location("a.py", 30))]
    found = shown(result("r", By.LINT, Outcome.FAIL, kept, again), result("s", By.LINT, Outcome.FAIL, *made))
    fingerprints = [alarm.fingerprint for alarm in found]
    assert "f" in fingerprints
    assert len(set(fingerprints)) == 4
    moved = shown(result("s", By.LINT, Outcome.FAIL, *(replace(one, location=Location("a.py", 77)) for one in made)))
    assert {alarm.fingerprint for alarm in moved} <= set(fingerprints)


def test_paths_are_told_from_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "repo" / "sub").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "repo" / "sub")
    assert below("a.py", "..") == "sub/a.py"
    assert below(str(tmp_path / "repo" / "b.py"), "..") == "b.py"
    assert below("../../out.py", "..") == str(tmp_path / "out.py")
    (alarm,) = shown(result("r", By.LINT, Outcome.FAIL, Finding("m", Location("a.py", 1))), root="..")
    assert alarm.location.path == "sub/a.py"


def test_what_broke_is_told() -> None:
    failed = result("r", By.PROBE, Outcome.ERROR)
    assert broken(Report("check", "", (failed, result("s", By.LINT, Outcome.PASS)))) == [failed]
