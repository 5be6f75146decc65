"""`mlcheck lint --new-since REVISION`: what the branch brings, wherever its cause is; the checkout is left alone."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from mlcheck.cli import main

NET = "from torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return x\n"
LOOP = """\
import torch.nn.functional as F
from net import Net


def loss(x, y):
    return F.cross_entropy(Net()(x), y)
"""
OLD = """\
import torch.nn.functional as F


def old_loss(x, y):
    return F.cross_entropy(x.softmax(1), y)
"""

Out = pytest.CaptureFixture[str]


def git(*words: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *identity, *words], capture_output=True, text=True, check=True).stdout


def write(name: str, text: str) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text, encoding="utf-8")


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit with one old defect, in a repository that no setting of the machine reaches."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    git("init", "-q", "-b", "trunk")
    write("net.py", NET)
    write("loop.py", LOOP)
    write("old.py", OLD)
    git("add", ".")
    git("commit", "-qm", "first")


def found(capsys: Out, *arguments: str) -> list[tuple[str, int]]:
    capsys.readouterr()
    main(["lint", "--format", "json", *arguments])
    results = json.loads(capsys.readouterr().out)["results"]
    places = [finding["location"] for result in results for finding in result["findings"]]
    return [(place["path"], place["line"]) for place in places]


def test_what_was_there_is_no_news(capsys: Out) -> None:
    assert found(capsys) == [("old.py", 5)]
    assert found(capsys, "--new-since", "trunk") == []
    assert main(["lint", "--new-since", "trunk"]) == 0
    assert "trunk hides 1 finding" in capsys.readouterr().out


def test_a_defect_is_new_though_its_line_is_old(capsys: Out) -> None:
    """The softmax comes in one file; nothing changed where the loss is."""
    write("net.py", NET.replace("return x", "return x.softmax(1)"))
    write("old.py", "# moved\n\n" + OLD)
    assert found(capsys, "--new-since", "HEAD") == [("net.py", 6)]
    git("commit", "-qam", "second")
    assert found(capsys, "--new-since", "HEAD~1") == [("net.py", 6)]
    assert found(capsys, "--new-since", "HEAD") == []


def test_a_new_file_is_new(capsys: Out) -> None:
    write("sub/new.py", OLD)
    assert found(capsys, "--new-since", "HEAD") == [("sub/new.py", 5)]
    assert found(capsys, "--new-since", "HEAD", "sub") == [("sub/new.py", 5)]


def test_what_is_mended_is_told(capsys: Out) -> None:
    write("old.py", "x = 1\n")
    assert main(["lint", "--new-since", "HEAD"]) == 0
    assert "HEAD: 1 finding fixed (softmax-before-ce in old.py)\n" in capsys.readouterr().out


def test_it_works_from_a_folder_and_with_whole_paths(
    capsys: Out, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write("sub/b.py", OLD)
    git("add", ".")
    git("commit", "-qm", "second")
    write("sub/b.py", "# moved\n" + OLD + OLD.replace("old_loss", "new_loss"))
    monkeypatch.chdir("sub")
    assert found(capsys, "--new-since", "HEAD") == [("b.py", 11)]
    whole = str(tmp_path / "sub" / "b.py")
    assert found(capsys, "--new-since", "HEAD", whole) == [(whole, 11)]
    assert found(capsys, "--new-since", "HEAD", "../old.py") == []


def test_the_checkout_stays_as_it_is(capsys: Out) -> None:
    write("net.py", NET + "# staged\n")
    git("add", "net.py")
    write("net.py", NET + "# not staged\n")
    before = git("status", "--porcelain"), git("diff"), git("diff", "--cached")
    found(capsys, "--new-since", "HEAD", "--no-cache")
    assert (git("status", "--porcelain"), git("diff"), git("diff", "--cached")) == before


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--new-since", "nowhere"], "git says: fatal"),
        (["--new-since=-x"], "is no revision"),
        (["--new-since", "HEAD", "--baseline", "known.json"], "leave out --baseline"),
        (["--new-since", "HEAD", os.sep], "not in the repository"),
    ],
)
def test_misuse_is_one_sentence(capsys: Out, arguments: list[str], told: str) -> None:
    assert main(["lint", *arguments]) == 2
    printed = capsys.readouterr().err
    assert told in printed
    assert len(printed.splitlines()) == 1


def test_outside_of_a_repository_it_says_so(
    capsys: Out, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("plain"))
    assert main(["lint", "--new-since", "HEAD"]) == 2
    assert "not a git repository" in capsys.readouterr().err
