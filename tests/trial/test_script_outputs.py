"""The folder that a script's writes are led to: it stays where it is, and two of them keep apart."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mlcheck.trial.script.outputs import Outputs

Lead = Callable[[str], Outputs]


@pytest.fixture
def lead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lead]:
    """Lead writes to a scratch folder of this name, from an empty working folder."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    installed: list[Outputs] = []

    def led(name: str) -> Outputs:
        installed.append(Outputs(tmp_path / name))
        installed[-1].install()
        return installed[-1]

    yield led
    for outputs in reversed(installed):
        outputs.uninstall()
    assert not list((tmp_path / "work").iterdir())


def test_a_script_that_clears_its_temporary_folder_away_goes_on_writing(lead: Lead) -> None:
    outputs = lead("scratch")
    Path("first.txt").write_text("x", encoding="utf-8")
    for folder in (tempfile.gettempdir(), outputs.scratch.folder):
        shutil.rmtree(folder)
        os.makedirs("runs/one")
        Path("runs/one/note.txt").write_text("x", encoding="utf-8")
        assert os.listdir("runs/one") == ["note.txt"]
        with tempfile.NamedTemporaryFile() as file:
            assert file.name.startswith(outputs.scratch.folder)
        shutil.rmtree("runs")
        assert not os.path.exists("runs")
    assert not os.path.exists("first.txt")


def test_a_folder_removed_from_outside_is_made_again(lead: Lead) -> None:
    outputs = lead("scratch")
    os.rmdir(outputs.scratch.files)
    os.makedirs("runs/one", exist_ok=True)
    Path("runs/one/note.txt").write_text("x", encoding="utf-8")
    assert Path("runs/one/note.txt").read_text(encoding="utf-8") == "x"


def test_of_two_scripts_under_examination_the_later_writes_to_its_own_folder(lead: Lead) -> None:
    first = lead("first")
    Path("note.txt").write_text("first", encoding="utf-8")
    second = lead("second")
    assert not os.path.exists("note.txt")
    os.makedirs("runs/one")
    Path("note.txt").write_text("second", encoding="utf-8")
    assert Path("note.txt").read_text(encoding="utf-8") == "second"
    assert list(second.scratch.redirected) == [os.path.abspath("note.txt")]
    second.uninstall()
    assert Path("note.txt").read_text(encoding="utf-8") == "first"
    assert not os.path.exists("runs")
    assert list(first.scratch.redirected) == [os.path.abspath("note.txt")]
