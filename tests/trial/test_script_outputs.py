"""The folder that a script's writes are led to: it stays where it is, and two of them keep apart."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib import import_module
from pathlib import Path

import pytest
import torch

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


def test_paths_may_be_given_by_name(lead: Lead) -> None:
    lead("scratch")
    os.mkdir(path="runs")
    torch.save(obj=torch.ones(2), f="runs/one.pt")
    os.rename(src="runs/one.pt", dst="runs/two.pt")
    assert torch.equal(torch.load(f="runs/two.pt"), torch.ones(2))
    assert os.stat(path="runs/two.pt").st_size
    os.remove(path="runs/two.pt")
    assert not os.listdir(path="runs")
    shutil.rmtree(path="runs")


def test_a_folder_is_made_once_in_every_run(lead: Lead) -> None:
    outputs = lead("scratch")
    for _ in range(2):
        os.makedirs("runs/one")
        Path("runs/one/log.txt").write_text("x", encoding="utf-8")
        os.mkdir("empty")
        outputs.scratch.keep()
        with pytest.raises(FileExistsError):
            os.makedirs("runs/one")
        outputs.scratch.clear()
        assert os.path.exists("runs/one/log.txt")
        assert not os.path.exists("empty")


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


def test_a_database_is_changed_in_the_scratch_folder_only(lead: Lead, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.db"
    with closing(sqlite3.connect(theirs)) as base:
        base.execute("create table t (x)")
        base.commit()
    before = theirs.read_bytes()
    outputs = lead("scratch")
    for path in (theirs, "new.db"):
        for value in (1, 2):
            with closing(sqlite3.connect(path)) as base:
                base.execute("create table if not exists t (x)")
                base.execute("insert into t values (?)", (value,))
                base.commit()
                assert len(base.execute("select * from t").fetchall()) == value
    with closing(sqlite3.connect(":memory:")) as base:
        base.execute("create table t (x)")
    outputs.uninstall()
    assert theirs.read_bytes() == before
    assert list(outputs.scratch.redirected) == [os.path.abspath("new.db")]


def test_what_compiled_code_of_torch_writes_is_led_away(lead: Lead) -> None:
    outputs = lead("scratch")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        torch.ones(2).sum()
    profile.export_chrome_trace("trace.json")
    assert "traceEvents" in Path("trace.json").read_text(encoding="utf-8")
    assert list(outputs.scratch.redirected) == [os.path.abspath("trace.json")]


LIBRARY = """
import ctypes, os

def opened(path, mode):  # as compiled code does, past Python
    libc = ctypes.CDLL(None)
    file = libc.open(os.fsencode(path), os.O_RDWR | (os.O_CREAT if mode != "r" else 0), 0o644)
    if file < 0:
        raise FileNotFoundError(path)
    libc.lseek(file, 0, os.SEEK_END)
    libc.write(file, mode.encode(), 1 if mode != "r" else 0)
    libc.close(file)

class File:
    def __init__(self, name, mode="r"):
        opened(name, mode)
"""


def test_a_library_is_led_once_it_is_imported(lead: Lead, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for h5py, which writes from compiled code in the mode that it is given."""
    (tmp_path / "h5py.py").write_text(LIBRARY, encoding="utf-8")
    (tmp_path / "theirs.h5").write_text("a", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "h5py", raising=False)
    outputs = lead("scratch")
    h5py = import_module("h5py")
    for path, mode in (("new.h5", "w"), ("new.h5", "r"), ("new.h5", "a"), (tmp_path / "theirs.h5", "a")):
        h5py.File(path, mode)
    h5py.File(name="other.h5", mode="w")
    assert Path("new.h5").read_text(encoding="utf-8") == "wa"
    assert (tmp_path / "theirs.h5").read_text(encoding="utf-8") == "aa"
    with pytest.raises(FileNotFoundError):
        h5py.File("absent.h5")
    outputs.uninstall()
    monkeypatch.delitem(sys.modules, "h5py")
    assert (tmp_path / "theirs.h5").read_text(encoding="utf-8") == "a"
    assert [os.path.basename(path) for path in outputs.scratch.redirected] == ["new.h5", "theirs.h5", "other.h5"]


MAPPED = """
import ctypes, os

def memory_map(path, mode="r"):
    if ctypes.CDLL(None).open(os.fsencode(path), os.O_RDONLY) < 0:
        raise FileNotFoundError(path)
"""


def test_what_python_wrote_is_found_by_a_library_that_maps_it(
    lead: Lead, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for pyarrow, by which a cache of a data set is read that was made a moment ago."""
    (tmp_path / "pyarrow.py").write_text(MAPPED, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pyarrow", raising=False)
    outputs = lead("scratch")
    pyarrow = import_module("pyarrow")
    Path("cache.arrow").write_bytes(b"rows")
    pyarrow.memory_map("cache.arrow")
    with pytest.raises(FileNotFoundError):
        pyarrow.memory_map("absent.arrow")
    outputs.uninstall()
    monkeypatch.delitem(sys.modules, "pyarrow")
    assert not Path("cache.arrow").exists()
