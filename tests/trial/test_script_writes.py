"""What a script writes while it is driven: led to a scratch folder, or refused; nothing is left behind."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest
from script_programs import SOUND, LoadScript

from mlcheck.trial.sandbox import restored


def test_nothing_is_left_behind(load_script: LoadScript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It appends to a log, replaces a checkpoint, removes a file, makes folders, moves, changes directory and argv."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    Path("old.log").write_text("kept\n", encoding="utf-8")
    Path("model.pt").write_text("a checkpoint of last week", encoding="utf-8")
    Path("gone.txt").write_text("still here", encoding="utf-8")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    litter = """
import os, pathlib, shutil, sys
sys.argv = ["changed"]
with open("old.log", "a") as log:
    log.write("more")
assert pathlib.Path("old.log").read_text() == "kept\\nmore"
os.remove("gone.txt")
assert not os.path.exists("gone.txt")
os.makedirs("runs/one", exist_ok=True)
pathlib.Path("runs/one/note.txt").write_text("x")
os.rename("runs/one/note.txt", "runs/one/moved.txt")
assert os.listdir("runs/one") == ["moved.txt"]
assert os.statvfs("runs/one").f_namemax and shutil.disk_usage("runs/one").free
assert [path.name for path in pathlib.Path("runs/one").iterdir()] == ["moved.txt"]
pathlib.Path("~/cache.bin").expanduser().write_bytes(b"1")
os.makedirs(os.path.expanduser("~/.cache"))
pathlib.Path("~/.cache/fonts.json").expanduser().write_bytes(b"1")
os.chdir("runs/one")
"""
    text = SOUND.replace("    for epoch in", litter.replace("\n", "\n    ") + "\n    for epoch in")
    trial = load_script(text)
    with restored(trial):
        trial.evaluate_step(next(trial.validation_batches()))
    assert trial.progress
    trial.progress.close()
    now = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name != "train.py"}
    assert now == before
    assert not (tmp_path / "runs").exists()
    assert os.getcwd() == str(tmp_path)
    told = next(notice for notice in trial.notices if "scratch folder" in notice)
    assert "old.log" in told
    assert "gone.txt" in told
    assert "fonts.json" not in told, "what a library keeps is none of the script's files"


def test_what_compiled_code_writes_is_led_away_too(load_script: LoadScript, tmp_path: Path) -> None:
    litter = """
import safetensors.torch, warnings
warnings.simplefilter("ignore")
safetensors.torch.save_file({"x": x}, "model.safetensors")
assert torch.equal(safetensors.torch.load_file("model.safetensors")["x"], x)
torch.jit.save(torch.jit.script(nn.Linear(2, 2)), "model.ts")
torch.jit.load("model.ts")
"""
    pytest.importorskip("safetensors")
    trial = load_script(SOUND.replace("    for epoch in", litter.replace("\n", "\n    ") + "\n    for epoch in"))
    assert trial.progress
    trial.progress.close()
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]
    told = next(notice for notice in trial.notices if "scratch folder" in notice)
    assert "model.safetensors, model.ts" in told


def test_an_archive_that_is_unpacked_lands_in_the_scratch_folder(load_script: LoadScript, tmp_path: Path) -> None:
    """As a downloaded data set is; `tarfile` holds on to the built-in `open`, and so may other modules."""
    with tarfile.open(tmp_path.parent / "data.tgz", "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("data/x.txt"))
    unpack = """
    import tarfile, numpy
    tarfile.open('../data.tgz').extractall(filter='data')
    open('data/x.txt').close()
    numpy.savetxt('data/y.txt', x.numpy())
    assert len(numpy.loadtxt('data/y.txt')) == 96
"""
    trial = load_script(SOUND.replace("    for epoch in", f"{unpack}    for epoch in"))
    assert trial.progress
    trial.progress.close()
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]
