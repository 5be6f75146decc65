"""Sound programs are silent; one change that breaks them is reported, at its line and nowhere else.

Each folder of `fixtures` is a program, with the changes that break it in its `mutants.toml`.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from mlcheck.core.outcome import Severity
from mlcheck.lint.run import LintSettings, run_lint

PROGRAMS = sorted(path.parent for path in (Path(__file__).parent / "fixtures").glob("*/mutants.toml"))

Files = dict[str, str]


def read(program: Path) -> Files:
    return {path.relative_to(program).as_posix(): path.read_text("utf-8") for path in sorted(program.rglob("*.py"))}


def mutants() -> Iterator[object]:
    for program in PROGRAMS:
        for mutant in tomllib.loads((program / "mutants.toml").read_text("utf-8"))["mutant"]:
            yield pytest.param(program, mutant, id=f"{program.name}: {mutant['name']}")


def alarms(
    files: Files, folder: Path, monkeypatch: pytest.MonkeyPatch, expected: str = ""
) -> set[tuple[str, str, int]]:
    """(rule, file, line) of all errors and warnings of a program, and of the notes of the rule that is expected."""
    monkeypatch.chdir(folder)
    for name, code in files.items():
        compile(code, name, "exec")
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(code, encoding="utf-8")
    report = run_lint(["."], LintSettings())
    assert [result.traceback for result in report.results if result.traceback] == []
    return {
        (result.rule, finding.location.path, finding.location.line)
        for result in report.results
        if result.severity is not Severity.NOTE or result.rule == expected
        for finding in result.findings
    }


def line_of(text: str, code: str) -> int:
    """The number of the only line of `code` in which `text` begins, white space before it aside."""
    assert code.count(text) == 1, f"{text!r} stands {code.count(text)} times in the program"
    return code.count("\n", 0, code.index(text) + len(text) - len(text.lstrip())) + 1


@pytest.mark.parametrize("program", [pytest.param(program, id=program.name) for program in PROGRAMS])
def test_sound_program_is_silent(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert alarms(read(program), tmp_path, monkeypatch) == set()


@pytest.mark.parametrize(("program", "mutant"), list(mutants()))
def test_mutant_is_reported(
    program: Path, mutant: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = read(program)
    code = files[mutant["file"]]
    assert code.count(mutant["old"]) == 1
    files[mutant["file"]] = code.replace(mutant["old"], mutant["new"])
    where = mutant.get("reported", mutant["file"])
    assert alarms(files, tmp_path, monkeypatch, mutant["rule"]) == {
        (mutant["rule"], where, line_of(mutant["at"], files[where]))
    }


NEEDED = {"zero_grad", "backward", "manual_backward", "step", "eval", "unscale_", "update"}
"""Calls by the last part of their names: a sound program without one of them is sound no more."""
HARMLESS = {
    ("mixed-precision-with-accumulation", "optimizer.zero_grad()", 9): "nothing has been accumulated yet",
}
UNTOLD = {
    ("lightning-with-manual-optimisation", "self.manual_backward(loss)", 21): "the framework may differentiate",
}


def without_one_call(code: str) -> Iterator[tuple[str, int, str]]:
    """The text and the line of each needed call that is a statement, and the program without it."""
    lines = code.splitlines(keepends=True)
    for node in ast.walk(ast.parse(code)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Call)
            and isinstance(node.value.func, ast.Attribute)
        ):
            if node.value.func.attr in NEEDED:
                rest = [*lines[: node.lineno - 1], " " * node.col_offset + "pass\n", *lines[node.end_lineno :]]
                yield ast.unparse(node), node.lineno, "".join(rest)


@pytest.mark.parametrize("program", [pytest.param(program, id=program.name) for program in PROGRAMS])
def test_no_needed_call_goes_missing_unnoticed(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, silent = read(program), set()
    for name, code in files.items():
        for number, (text, line, mutant) in enumerate(without_one_call(code)):
            folder = tmp_path / f"{name.replace('/', '-')}-{number}"
            folder.mkdir()
            if not alarms({**files, name: mutant}, folder, monkeypatch):
                silent.add((program.name, text, line))
    assert silent == {known for known in HARMLESS | UNTOLD if known[0] == program.name}


def test_there_is_a_mutant_for_every_rule() -> None:
    rules = {
        mutant["rule"]
        for program in PROGRAMS
        for mutant in tomllib.loads((program / "mutants.toml").read_text("utf-8"))["mutant"]
    }
    assert len(PROGRAMS) >= 8
    assert len(rules) >= 10
