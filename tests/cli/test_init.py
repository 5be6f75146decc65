"""`mlcheck init`: what is shown, what is written, what is left alone."""

from pathlib import Path

import pytest

from mlcheck.cli import main
from mlcheck.config import load_config

SCRIPT = "import torch\nfor batch in loader:\n    loss.backward()\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_shows_and_writes_nothing_unasked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "train.py").write_text(SCRIPT)
    assert main(["init"]) == 0
    out = capsys.readouterr().out
    assert "* train.py  (script)" in out
    assert 'entry = "train.py"' in out
    assert not (folder / "pyproject.toml").exists()


def test_what_it_writes_is_what_the_other_commands_read(folder: Path) -> None:
    (folder / "train.py").write_text(SCRIPT)
    (folder / "pyproject.toml").write_text('[project]\nname = "x"')
    assert main(["init", "--yes"]) == 0
    text = (folder / "pyproject.toml").read_text()
    assert text == '[project]\nname = "x"\n\n[tool.mlcheck]\npaths = ["."]\nentry = "train.py"\n'
    config = load_config()
    assert (config.paths, config.entry) == ((".",), "train.py")


def test_another_entry_may_be_named(folder: Path) -> None:
    (folder / "train.py").write_text(SCRIPT)
    assert main(["init", "--yes", "--entry", 'odd "name":f']) == 0
    assert load_config().entry == 'odd "name":f'


def test_nothing_to_probe_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--yes"]) == 0
    assert "no entry point was found" in capsys.readouterr().out
    assert load_config().entry == ""


def test_what_cannot_be_probed_is_shown_and_not_taken(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "model.py").write_text("import torch\nclass T(pl.LightningModule): pass\n")
    assert main(["init", "--yes"]) == 0
    assert "  model:T  (LightningModule without data)" in capsys.readouterr().out
    assert load_config().entry == ""


@pytest.mark.parametrize(("text", "told"), [("[tool.mlcheck]\n", "has a table"), ("[", "cannot be read")])
def test_a_table_that_is_there_is_left_alone(
    text: str, told: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "pyproject.toml").write_text(text)
    assert main(["init", "--yes"]) == 2
    assert told in capsys.readouterr().err
    assert (folder / "pyproject.toml").read_text() == text
