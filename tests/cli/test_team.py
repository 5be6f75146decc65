"""A team's own pages, and the profile of a checklist."""

from pathlib import Path

import pytest

from mlcheck.cli import main

PAGE = '# Legal has agreed\n```toml\nseverity = "error"\nby = ["sign-off"]\n```\nThe data is personal.\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("x = 1\n")
    (tmp_path / "pyproject.toml").write_text('[tool.mlcheck]\nrules = ["checklist"]\npaths = ["train.py"]\n')
    page = tmp_path / "checklist" / "launch" / "legal-not-asked.md"
    page.parent.mkdir(parents=True)
    page.write_text(PAGE)
    return tmp_path


def test_a_page_of_the_team_is_asked_explained_and_signed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--html", "", "--json", ""]) == 0
    assert "PENDING  Legal has agreed  legal-not-asked (sign-off)" in capsys.readouterr().out
    assert main(["explain", "legal-not-asked"]) == 0
    assert "The data is personal." in capsys.readouterr().out
    assert main(["sign", "legal-not-asked", "--note", "ticket 17", "--by", "Ada"]) == 0
    capsys.readouterr()
    assert main(["check", "--verbose", "--html", "", "--json", ""]) == 0
    assert "PASS     Legal has agreed" in capsys.readouterr().out


def test_a_shared_package_is_found_and_not_imported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = folder / "elsewhere" / "ourlist" / "pages" / "launch"
    shared.mkdir(parents=True)
    (shared.parent.parent / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (shared / "budget-not-agreed.md").write_text(PAGE)
    monkeypatch.syspath_prepend(str(folder / "elsewhere"))
    (folder / "pyproject.toml").write_text('[tool.mlcheck]\nrules = ["ourlist:pages"]\n')
    assert main(["explain", "budget-not-agreed"]) == 0


@pytest.mark.parametrize(
    ("rules", "page", "told"),
    [
        ('"absent"', "launch/x.md", "there is no folder absent"),
        ('"absent_package:pages"', "launch/x.md", "there is no installed package `absent_package`"),
        ('"checklist"', "launch/missing-zero-grad.md", "`missing-zero-grad` is already the name of"),
        ('"checklist"', "weather/rain.md", "'weather' is not a valid Stage"),
    ],
)
def test_pages_that_cannot_be_used_are_one_sentence(
    rules: str, page: str, told: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "pyproject.toml").write_text(f"[tool.mlcheck]\nrules = [{rules}]\n")
    path = folder / "checklist" / page
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(PAGE)
    assert main(["check", "--html", "", "--json", ""]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


def test_a_page_of_the_team_only_asks_people(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "checklist" / "launch" / "legal-not-asked.md").write_text(PAGE.replace("sign-off", "lint"))
    assert main(["rules"]) == 2
    assert 'write `by = ["sign-off"]`' in capsys.readouterr().err


def test_a_first_run_is_not_asked_what_a_launch_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--html", "", "--json", "", "--profile", "first-run"]) == 0
    out = capsys.readouterr().out
    assert "legal-not-asked" not in out
    assert "baseline-unknown" in out
    assert "the profile first-run leaves out" in out
    (folder / "pyproject.toml").write_text('[tool.mlcheck]\nprofile = "frist-run"\n')
    assert main(["check", "--html", "", "--json", ""]) == 2
    assert "there are first-run, long-run, launch" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["lint"], ["probe", "train:build"]])
def test_a_folder_that_is_not_there_is_told_by_every_command(
    command: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "pyproject.toml").write_text('[tool.mlcheck]\nrules = ["absent"]\n')
    assert main(command) == 2
    assert "there is no folder absent" in capsys.readouterr().err
