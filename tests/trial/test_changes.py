"""Files that changed while a program ran."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlcheck.trial.changes import Changes


def test_files_that_are_new_changed_and_gone_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work, home = tmp_path / "work", tmp_path / "home"
    (work / "runs").mkdir(parents=True)
    (work / "__pycache__").mkdir()
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("same.txt", "changed.txt", "gone.txt"):
        (work / name).write_text("1", encoding="utf-8")
    changes = Changes(str(work))
    changes.begin()
    assert changes.told() == ""
    (work / "changed.txt").write_text("22", encoding="utf-8")
    (work / "gone.txt").unlink()
    (work / "runs" / "new.h5").write_text("1", encoding="utf-8")
    (work / "__pycache__" / "x.pyc").write_text("1", encoding="utf-8")
    (work / "mlcheck-report.json").write_text("1", encoding="utf-8")
    (home / "note.txt").write_text("1", encoding="utf-8")
    (home / ".history").write_text("1", encoding="utf-8")
    told = changes.told()
    assert f"these files changed: {home / 'note.txt'}, changed.txt, gone.txt, runs/new.h5 (" in told


def test_many_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    changes = Changes(str(tmp_path))
    changes.begin()
    for number in range(9):
        (tmp_path / f"{number}.txt").touch()
    assert "0.txt, 1.txt, 2.txt, 3.txt, 4.txt, 5.txt and 3 more (" in changes.told()
