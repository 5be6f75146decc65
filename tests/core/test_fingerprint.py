"""Digests of data: the same for the same data, another for other data, and honest about what was hashed."""

from pathlib import Path

import pytest

from mlcheck.core import fingerprint
from mlcheck.core.fingerprint import fingerprints


def test_a_file_is_told_by_its_size_and_contents(tmp_path: Path) -> None:
    path = tmp_path / "names.txt"
    path.write_bytes(b"ada\n")
    told = fingerprints([str(path), str(path), str(tmp_path / "gone")], str(tmp_path))
    assert list(told) == ["file names.txt"]
    assert told["file names.txt"].startswith("4 bytes, sha256 ")
    path.write_bytes(b"eve\n")
    assert fingerprints([str(path)], str(tmp_path)) != told


def test_a_large_file_is_told_by_its_size_ends_and_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprint, "_WHOLE", 100)
    monkeypatch.setattr(fingerprint, "_SAMPLE", 10)
    path = tmp_path / "large.bin"
    data = bytearray(range(200))
    seen = set()
    for changed in (None, 0, 100, 199):
        if changed is not None:
            data[changed] = 255
        path.write_bytes(data)
        (told,) = fingerprints([str(path)], str(tmp_path)).values()
        assert told.startswith("200 bytes, sha256 of its size, ends and middle ")
        seen.add(told)
    path.write_bytes(data + b"\0")
    assert len(seen | set(fingerprints([str(path)], str(tmp_path)).values())) == 5


def pictures(folder: Path, classes: int, each: int) -> list[str]:
    paths = [folder / f"class{kind}" / f"{number}.png" for kind in range(classes) for number in range(each)]
    for path in paths:
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(b"x" * 5)
    return [str(path) for path in paths]


def test_many_files_are_told_by_their_folder_whichever_of_them_were_read(tmp_path: Path) -> None:
    paths = pictures(tmp_path / "train", classes=20, each=3)
    told = fingerprints(paths[::2], str(tmp_path))
    assert list(told) == ["folder train"]
    assert told["folder train"].startswith("60 files, 300 bytes, sha256 of names and sizes ")
    assert fingerprints(paths[1::2], str(tmp_path)) == told
    Path(paths[0]).write_bytes(b"longer than before")
    assert fingerprints(paths, str(tmp_path)) != told


def test_a_few_folders_stay_apart(tmp_path: Path) -> None:
    paths = pictures(tmp_path / "train", 2, 8) + pictures(tmp_path / "valid", 1, 8)
    assert list(fingerprints(paths, str(tmp_path))) == [
        "folder train/class0", "folder train/class1", "folder valid/class0",
    ]  # fmt: skip


def test_what_is_endless_is_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprint, "_MOST_ENTRIES", 10)
    told = fingerprints(pictures(tmp_path / "train", 1, 20), str(tmp_path))
    assert told == {"folder train/class0": "more than 10 files: not compared"}


def test_what_lies_elsewhere_keeps_its_whole_path(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1\n")
    (tmp_path / "project").mkdir()
    (name,) = fingerprints([str(tmp_path / "a.csv")], str(tmp_path / "project"))
    assert name == f"file {(tmp_path / 'a.csv').resolve()}"
