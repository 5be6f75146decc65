"""A file is replaced whole: its mode, its links and what is no file stay as they are."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from mlcheck.core.atomic import replace_file


def test_it_is_written_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    replace_file(path, "first \ud800")
    replace_file(str(path), b"second")
    assert path.read_bytes() == b"second"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_a_folder_that_is_not_there_changes_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        replace_file(tmp_path / "absent" / "report.html", "x")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_put_in_place_is_taken_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    path.write_text("before")

    def refuse(*paths: str) -> None:
        raise PermissionError(13, "no")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(PermissionError):
        replace_file(path, "after")
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("report.html", "before")]


def test_mode_and_link_stay(tmp_path: Path) -> None:
    real, link = tmp_path / "real.toml", tmp_path / "link.toml"
    real.write_text("a")
    real.chmod(0o640)
    link.symlink_to(real)
    replace_file(link, "b")
    assert link.is_symlink()
    assert real.read_text() == "b"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    heard: list[str] = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_text()))
    reader.start()
    replace_file(pipe, "told")
    reader.join()
    assert heard == ["told"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_what_a_killed_command_left_goes_after_an_hour(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    old, fresh, other = (tmp_path / name for name in ("report.html.1.partial", "report.html.2.partial", "x.1.partial"))
    for left in (old, fresh, other):
        left.write_text("half")
    os.utime(old, (0, 0))
    os.utime(other, (0, 0))
    replace_file(path, "whole")
    assert {entry.name for entry in tmp_path.iterdir()} == {"report.html", fresh.name, other.name}
