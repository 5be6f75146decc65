"""Words that are not known: one sentence, the nearest right one, and exit code 2."""

from __future__ import annotations

import pytest

from mlcheck.cli import main


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["lnt"], "there is no command `lnt`: did you mean `lint`?"),
        (["xyzzy"], "there is no command `xyzzy`: it is one of "),
        ([], "name a command"),
        (["--strict", "lint"], "`--strict` stands behind the command: `mlcheck lint --strict`"),
        (["lint", "--selct", "x"], "there is no option `--selct`: did you mean `--select`?"),
        (["lint", "--selct=x"], "there is no option `--selct`: did you mean `--select`?"),
        (["lint", "--sel", "x"], "there is no option `--sel`"),
        (["probe", "train.py", "--xyzzy", "3"], "`--xyzzy`; the program's own go behind `--`"),
        (["lint", "--xyzzy"], "there is no option `--xyzzy`; see `mlcheck lint --help`"),
        (["lint", "--format", "jsn"], "there is no choice for --format `jsn`: did you mean `json`?"),
        (["lint", "--output"], "expected one argument"),
        (["probe", "a", "--seed", "x"], "invalid int value: 'x'"),
        (["explain"], "the following arguments are required: RULE; see `mlcheck explain --help`"),
        (["explain", "a", "b"], "`b` is one argument too many"),
        (["rules", "--stage", "trainig"], "there is no choice for --stage `trainig`: did you mean `training`?"),
        (["completion", "csh"], "did you mean"),
    ],
)
def test_a_wrong_word_is_one_sentence(capsys: pytest.CaptureFixture[str], arguments: list[str], told: str) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert told in printed.err
    assert printed.err.startswith("mlcheck: ")
    assert len(printed.err.splitlines()) == 1


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["lint", "--help"], ["check", "--help"]])
def test_help_fits_eighty_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    try:
        code = main(arguments)
    except SystemExit as left:  # argparse prints its help and leaves
        code = left.code  # type: ignore[assignment]
    assert code == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert max(map(len, lines)) <= 80
