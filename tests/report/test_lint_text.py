"""Findings in a terminal: the right line, marks under the right characters, nothing smuggled in by a file."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import By, Outcome, Severity, Stage
from mlcheck.core.report import Report, Result
from mlcheck.report.excerpt import _columns, source_lines
from mlcheck.report.lint_text import concise, render

RESULT = Result(
    rule="missing-zero-grad",
    title="Gradients are cleared",
    stage=Stage.TRAINING,
    severity=Severity.ERROR,
    by=By.LINT,
    outcome=Outcome.FAIL,
)


def finding(line: int = 1, column: int = 1, end: int = 0, message: str = "wrong", path: str = "t.py") -> Finding:
    return Finding(message, Location(path, line, column, line, end or column + 1))


def report(*results: Result, files: str = "3", notices: tuple[str, ...] = ()) -> Report:
    return Report("lint", ".", results, environment={"files linted": files}, notices=notices)


def failed(*findings: Finding) -> Result:
    return replace(RESULT, findings=findings)


def shown(code: str, found: Finding, width: int = 80) -> list[str]:
    """The lines of the report on one finding in `code`."""
    text = render(report(failed(found)), color=False, width=width, sources=lambda _: code.split("\n"))
    return text.split("\n\n")[0].split("\n")


def under_marks(lines: list[str]) -> str:
    """What of the code line stands above the carets, where every character is one column wide."""
    code, marks = lines[1], lines[2]
    return "".join(character for character, mark in zip(code, marks.ljust(len(code)), strict=False) if mark == "^")


def test_a_finding_in_full() -> None:
    found = Finding(
        "`backward()` adds to gradients that nothing clears",
        Location("train.py", 12, 9, 12, 24, "train"),
        help="call `optimizer.zero_grad()` before it",
        related=(Location("net.py", 3, 1, 3, 5), Location("far.py", 104, 1)),
    )
    code = {"train.py": ["for x in y:"] * 11 + ["        loss.backward()"], "net.py": ["a", "b", "  step(loss)  "]}
    text = render(report(failed(found)), color=False, width=80, sources=lambda path: code.get(path, []))
    assert text == (
        "train.py:12:9: error[missing-zero-grad] `backward()` adds to gradients that nothing clears\n"
        "   12 | loss.backward()\n"
        "      | ^^^^^^^^^^^^^^^\n"
        "      = note: see net.py:3:1: step(loss)\n"
        "      = note: see far.py:104:1\n"
        "      = help: call `optimizer.zero_grad()` before it\n"
        "\n"
        "Found 1 error in 3 files\n"
    )


def test_marks_stand_under_the_span() -> None:
    assert under_marks(shown("    a = f(x) + g(y)", finding(column=16, end=20))) == "g(y)"


def test_span_over_several_lines_is_marked_to_the_end_of_the_first() -> None:
    found = Finding("wrong", Location("t.py", 1, 5, 3, 2))
    assert under_marks(shown("a = f(x,\n      y\n)", found)) == "f(x,"


def test_place_without_a_column_marks_the_code_of_the_line() -> None:
    assert under_marks(shown("    loss()   ", Finding("wrong", Location("t.py", 1)))) == "loss()"


def test_tabs_are_spaces_to_the_next_stop() -> None:
    lines = shown("\tif x:\ty()", finding(column=8, end=11))
    assert lines[1].endswith("| if x:   y()")
    assert under_marks(lines) == "y()"


def test_marks_count_columns_and_not_characters() -> None:
    lines = shown("名前 = é(x)", finding(column=6, end=10))
    assert lines[1].endswith("| 名前 = é(x)")
    assert lines[2].endswith("|" + " " * 8 + "^^^^")
    lines = shown("f('e\u0301名', x)", finding(column=3, end=8))
    assert lines[2].endswith("|" + " " * 3 + "^" * 5)


def test_long_line_is_cut_around_the_span() -> None:
    code = "a = [" + "1, " * 100 + "culprit(x), " + "2, " * 100 + "]"
    start = code.index("culprit") + 1
    lines = shown(code, finding(column=start, end=start + 10), width=60)
    assert under_marks(lines) == "culprit(x)"
    assert all(len(line) <= 60 for line in lines[1:3])
    assert "… " in lines[1]
    assert lines[1].endswith(" …")


def test_long_span_is_marked_as_far_as_it_is_shown() -> None:
    lines = shown("f(" + "x, " * 200 + ")", finding(column=1, end=604), width=60)
    assert all(len(line) <= 60 for line in lines[1:3])
    assert under_marks(lines).startswith("f(x, x, ")


@pytest.mark.parametrize(
    "place", [Location("t.py", 99, 1), Location("t.py", 1, 500), Location("gone.py", 1, 1), Location()]
)
def test_place_that_is_not_in_the_file_shows_no_code(place: Location) -> None:
    lines = shown("x = 1" if place.path != "gone.py" else "", Finding("wrong", place))
    assert len(lines) == 1
    assert lines[0].endswith("error[missing-zero-grad] wrong")


def test_nothing_in_a_file_can_drive_the_terminal() -> None:
    evil = "x\x1b[2J\x07\u202e"
    found = Finding(
        f"m{evil}", Location(f"p{evil}.py", 1, 1, 1, 2), help=f"h{evil}\nerror: forged", related=(Location(evil, 1, 1),)
    )
    noted = report(failed(found), notices=(f"n{evil}\nforged",))
    for text in (render(noted, color=False, width=80, sources=lambda _: [evil]), concise(noted)):
        assert not set(text) & {"\x1b", "\x07", "\u202e"}
        assert "\\x1b[2J\\x07\\u202e" in text
        assert not [line for line in text.split("\n") if line.startswith(("forged", "error: forged"))]
    assert len(concise(noted).split("\n")) == 3


def test_color_only_when_asked_and_nothing_else_changes() -> None:
    plain = render(report(failed(finding())), color=False, width=80, sources=lambda _: ["x = 1"])
    colored = render(report(failed(finding())), color=True, width=80, sources=lambda _: ["x = 1"])
    assert "\x1b" not in plain
    assert "\x1b[1;31merror[missing-zero-grad]\x1b[0m" in colored
    assert re.sub("\x1b\\[[0-9;]*m", "", colored) == plain


def test_findings_of_all_rules_are_in_the_order_of_the_code() -> None:
    warned = replace(RESULT, rule="eval-without-no-grad", severity=Severity.WARNING, findings=(finding(2), finding(9)))
    text = concise(report(failed(finding(5), finding(1, path="a.py")), warned))
    assert [line.split(" ")[0] for line in text.splitlines()[:-1]] == [
        "a.py:1:1:",
        "t.py:2:1:",
        "t.py:5:1:",
        "t.py:9:1:",
    ]


@pytest.mark.parametrize(
    ("errors", "warnings", "notes", "told"),
    [
        (0, 0, 0, "Found nothing in 3 files"),
        (1, 0, 0, "Found 1 error in 3 files"),
        (3, 1, 0, "Found 3 errors and 1 warning in 3 files"),
        (2, 2, 1, "Found 2 errors, 2 warnings and 1 note in 3 files"),
    ],
)
def test_counts(errors: int, warnings: int, notes: int, told: str) -> None:
    results = [
        replace(RESULT, severity=severity, findings=tuple(finding(line) for line in range(1, number + 1)))
        for severity, number in zip(Severity, (errors, warnings, notes), strict=True)
    ]
    assert concise(report(*results)).splitlines()[-1] == told
    assert render(report(*results), color=False, width=80).splitlines()[-1] == told


def test_one_file_is_one_file() -> None:
    assert concise(report(files="1")) == "Found nothing in 1 file\n"


def test_notices_come_before_the_counts() -> None:
    text = render(report(notices=("t.py:3: hides nothing",)), color=False, width=80)
    assert text == "note: t.py:3: hides nothing\n\nFound nothing in 3 files\n"


def test_a_check_that_broke_is_told_with_its_traceback() -> None:
    broken = replace(
        RESULT, outcome=Outcome.ERROR, reason="mlcheck itself failed: KeyError: 1", traceback="Traceback\n  KeyError: 1"
    )
    text = render(report(broken), color=False, width=80)
    assert text.startswith("mlcheck: `missing-zero-grad` broke: mlcheck itself failed: KeyError: 1\n    Traceback\n")
    assert "missing-zero-grad` broke" in concise(report(broken))


def test_lines_are_those_of_python(tmp_path: Path) -> None:
    path = tmp_path / "t.py"
    path.write_bytes(b"a\r\nb\x0cb\rc\xe2\x80\xa8d\n")
    assert source_lines(str(path)) == ["a", "b\x0cb", "c\u2028d", ""]
    path.write_bytes(b"# coding: latin-1\n\xe9 = 1\n")
    assert source_lines(str(path))[1] == "é = 1"
    path.write_bytes(b"# coding: nonsense\n")
    assert source_lines(str(path)) == []
    assert source_lines(str(tmp_path / "gone.py")) == []


@pytest.mark.parametrize("width", [40, 60, 80, 132])
def test_everything_but_the_headline_fits_the_terminal(width: int) -> None:
    wide = "x = " + "名前" * 60
    found = replace(finding(), help="mend " * 60, related=(Location("t.py", 2, 1),))
    lines = render(report(failed(found)), False, width, lambda _: [wide, wide]).split("\n\n")[0].split("\n")
    assert all(_columns(line) <= width for line in lines[1:])
    assert " ".join(" ".join(lines).split()).count("mend") == 60
    assert lines[-1].startswith(" " * len("    = help: "))


def test_a_note_about_the_same_line_does_not_repeat_it() -> None:
    lines = shown("a = softmax(b)", replace(finding(1, 5), related=(Location("t.py", 1, 13),)))
    assert lines[-1].strip() == "= note: see column 13 of this line"


def test_headlines_and_notices_are_broken_for_a_terminal_alone() -> None:
    found = finding(message="wrong " * 30)
    shape = report(failed(found), notices=("told " * 30,))
    whole = render(shape, False, 80, lambda _: [])
    assert whole.startswith(f"t.py:1:1: error[missing-zero-grad] {('wrong ' * 30).strip()}\n")
    broken = render(shape, False, 80, lambda _: [], folded=True)
    assert max(map(len, broken.splitlines())) <= 80
    assert broken.split() == whole.split()
    assert "t.py:1:1: error[missing-zero-grad] wrong wrong" in broken


def test_a_finding_stays_on_its_line_whatever_its_file_is_called() -> None:
    first = shown("x = 1", finding(path="new\nline\t.py"))[0]
    assert first == "new\\nline\\t.py:1:1: error[missing-zero-grad] wrong"


def test_a_place_longer_than_the_terminal_stays_whole() -> None:
    found = finding(path="long/" * 30 + "t.py")
    first, second = render(report(failed(found)), False, 80, lambda _: [], folded=True).splitlines()[:2]
    assert first == "long/" * 30 + "t.py:1:1:"
    assert second == "    error[missing-zero-grad] wrong"
