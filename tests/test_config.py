"""The `[tool.mlcheck]` table: what is read, and what a wrong one is told."""

import os
from pathlib import Path

import pytest

from mlcheck.config import BadConfig, Config, load_config


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(project: Path, table: str) -> None:
    (project / "pyproject.toml").write_text(f"[tool.mlcheck]\n{table}\n", encoding="utf-8")


def test_defaults_without_a_pyproject(project: Path) -> None:
    assert load_config() == Config()


def test_every_kind_of_value_is_read(project: Path) -> None:
    write(
        project,
        'paths = ["src"]\nentry = "model_def:Trial"\ntime-limit = 30\nstrict = true\n'
        'per-file-ignores = { "tests/*" = ["missing-zero-grad"] }\nhyperparameters = { lr = 0.1 }',
    )
    config = load_config()
    assert config.paths == ("src",)
    assert config.entry == "model_def:Trial"
    assert config.time_limit == 30.0
    assert config.strict is True
    assert config.per_file_ignores == {"tests/*": ("missing-zero-grad",)}
    assert config.hyperparameters == {"lr": 0.1}


def test_found_from_a_folder_below(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(project, 'paths = ["src"]')
    (project / "src" / "deep").mkdir(parents=True)
    monkeypatch.chdir(project / "src" / "deep")
    assert load_config().root == os.path.join("..", "..")


def test_a_pyproject_without_the_table_does_not_hide_the_one_above(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, 'ignore = ["missing-zero-grad"]')
    (project / "sub").mkdir()
    (project / "sub" / "pyproject.toml").write_text("[project]\nname = 'x'\n", encoding="utf-8")
    monkeypatch.chdir(project / "sub")
    assert load_config().ignore == ("missing-zero-grad",)


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ('selekt = ["x"]', "no key `selekt`; did you mean `select`?"),
        ('select = "x"', "`select` must be a list of strings"),
        ("select = [1]", "`select` must be a list of strings"),
        ("strict = 1", "`strict` must be true or false"),
        ('seed = "0"', "`seed` must be a number"),
        ("seed = true", "`seed` must be a number"),
        ("time-limit = true", "`time-limit` must be a number"),
        ('memory-limit = "8"', "`8` is no amount of memory: write it as 800MB or 8GB"),
        ("memory-limit = 8", "`memory-limit` must be a string"),
        ("entry = 3", "`entry` must be a string"),
        ("per-file-ignores = []", "`per-file-ignores` must be a table"),
        ('per-file-ignores = { a = "b" }', "`per-file-ignores.a` must be a list of strings"),
        ("time-limit = -1", "`time-limit` must be more than 0 seconds, not -1"),
        ("budget = 0", "`budget` must be more than 0 seconds, not 0"),
        ("broken = = ", "not valid TOML"),
    ],
)
def test_a_wrong_table_is_told_in_one_sentence(project: Path, table: str, told: str) -> None:
    write(project, table)
    with pytest.raises(BadConfig) as caught:
        load_config()
    assert told in str(caught.value)
    assert str(caught.value).startswith("pyproject.toml: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["[[tool.mlcheck]]\nstrict = true\n", "tool.mlcheck = 3\n"])
def test_only_one_table_is_a_table(project: Path, text: str) -> None:
    (project / "pyproject.toml").write_text(text, encoding="utf-8")
    with pytest.raises(BadConfig, match=r"`tool\.mlcheck` must be one table"):
        load_config()


def test_tools_that_are_no_table_hold_none(project: Path) -> None:
    (project / "pyproject.toml").write_text("tool = 3  # tool.mlcheck\n", encoding="utf-8")
    assert load_config() == Config(root=".")
