"""The terminal checklist: what stands first, what stands where, and that nothing from outside moves a cursor."""

import re
from dataclasses import replace

import pytest
from rich.cells import cell_len

from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import By, Outcome
from mlcheck.core.report import Report, Result
from mlcheck.report import terminal

WHOLE = """\
FAIL  softmax-before-ce  the output already sums to 1 (model.py:42); it explains
1 other failure and 1 warning
mlcheck check  model:Net  2026-11-21 14:31 UTC
9 items: 2 failed, 1 could not run, 1 warned, 1 waiting for a person, 1
inconclusive, 1 waived, 1 skipped, 1 passed

WHAT IS WRONG
FAIL     The loss receives logits  softmax-before-ce (probe)               1.2 s
         row sums 1.0000 over 64 rows
         the output already sums to 1
         row sum 1, deviation 3.1e-08
         at: model.py:42:16 (Net.forward), train.py:8
         do: return logits: `CrossEntropyLoss` applies log-softmax itself
         lint said: FAIL `nn.Softmax` feeds `CrossEntropyLoss`
         this explains:
         FAIL  cannot-overfit: loss 1.62 after 200 steps, above the floor of
               0.05
         WARN  flat-start: gradients are 14 times too small

ERROR    The loader runs to its end  loader-raises (probe)
         IndexError: 17
           Traceback (most recent call last):
             File "data.py", line 9, in get
           IndexError: 17

SCOPE
PENDING  The purpose is written down  purpose-unstated (sign-off)

TRAINING
PASS     Every parameter learns  unused-parameter (probe)                  61 ms
         6 of 6 parameters changed

VALIDATION
UNCLEAR  Samples do not mix  batch-dependence (probe)
         two runs differ by 2e-3
WAIVED   Evaluation is in eval mode  missing-eval-mode (sign-off)
         waived by Ada on 2026-11-02, without end: no dropout here
         lint said: WARN `validate` runs in train mode

SPEED
SKIP     Gradients are unscaled first  clip-before-unscale (lint)
         no GradScaler in 4 files

note     sign an item off with `mlcheck sign RULE --note ANSWER`
note     the whole report: report.html
9 items: 2 failed, 1 could not run, 1 warned, 1 waiting for a person, 1
inconclusive, 1 waived, 1 skipped, 1 passed in 9.2 s
FAIL  softmax-before-ce  the output already sums to 1 (model.py:42); it explains
1 other failure and 1 warning
"""

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def test_the_whole_checklist_at_80_columns(report: Report) -> None:
    assert terminal.render(report, width=80, color=False) == WHOLE


def test_color_changes_nothing_but_color(report: Report) -> None:
    colored = terminal.render(report, width=80, color=True)
    assert "\x1b[1;31mFAIL" in colored
    assert [line.rstrip() for line in ANSI.sub("", colored).splitlines()] == WHOLE.splitlines()


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(report: Report, width: int) -> None:
    lines = terminal.render(report, width=width, color=False).splitlines()
    assert max(cell_len(line) for line in lines) <= width


def test_plain_output_is_ascii_of_its_own(report: Report) -> None:
    long = replace(report.results[0], findings=(Finding("x" * 5000),), traceback="\n".join("t" * 50))
    terminal.render(replace(report, results=(long,)), width=80, color=False).encode("ascii")


@pytest.mark.parametrize("color", [True, False])
def test_nothing_from_outside_moves_the_cursor_or_is_read_as_markup(hostile: Report, color: bool) -> None:
    text = terminal.render(hostile, width=80, color=color)
    text.encode("utf-8")
    bare = ANSI.sub("", text) if color else text
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029]", bare)
    joined = re.sub(r"\s+", "", bare)
    if "[bold red]" in hostile.subject:
        assert "[boldred]x[/boldred]" in joined
        assert "[link=file:///etc]y[/link]" in joined
    if "\x1b" in hostile.subject:
        assert r"\x1b[31mred\x1b[0m" in joined


def test_a_megabyte_of_message_is_cut(report: Report) -> None:
    huge = replace(report.results[0], findings=(Finding("m" * 1_000_000, help="h" * 1_000_000),))
    assert len(terminal.render(replace(report, results=(huge,)), width=80, color=False)) < 8_000


def test_many_findings_are_counted_not_listed(report: Report) -> None:
    many = tuple(Finding(f"defect {n}", Location("a.py", n)) for n in range(1, 1001))
    text = terminal.render(replace(report, results=(replace(report.results[0], findings=many),)), width=80, color=False)
    assert "defect 5\n" in text
    assert "defect 6\n" not in text
    assert "... and 995 more like it" in text


def test_nothing_checked_is_not_a_pass() -> None:
    text = terminal.render(Report("check", "m:N", ()), width=80, color=False)
    assert text.startswith("SKIP  nothing was checked")


def test_a_clean_run_says_so_first(report: Report) -> None:
    passed = tuple(result for result in report.results if result.outcome is Outcome.PASS)
    text = terminal.render(replace(report, results=passed), width=80, color=False)
    assert text.startswith("PASS  nothing failed: 1 passed\n")
    assert "WHAT IS WRONG" not in text


def test_what_is_skipped_for_one_reason_is_told_once(report: Report) -> None:
    skipped = replace(report.results[-1], outcome=Outcome.SKIP, reason="the entry point does not run", findings=())
    rules = ("a-rule", "b-rule", "c-rule", "d-rule")
    many = replace(report, results=tuple(replace(skipped, rule=rule) for rule in rules))
    text = terminal.render(many, width=80, color=False)
    assert text.count("the entry point does not run") == 1
    assert "SKIP     4 items: the entry point does not run\n" in text
    assert "a-rule" not in text
    few = terminal.render(replace(many, results=many.results[:3]), width=80, color=False)
    assert few.count("the entry point does not run") == 3


def test_what_is_undecided_for_one_reason_is_told_once_and_named(report: Report) -> None:
    open_question = replace(
        report.results[-1], outcome=Outcome.INCONCLUSIVE, reason="27 steps are too few", findings=()
    )
    results = tuple(replace(open_question, rule=f"rule-{number}") for number in range(4))
    text = terminal.render(replace(report, results=results), width=80, color=False)
    assert "UNCLEAR  4 items: 27 steps are too few\n         rule-0, rule-1, rule-2, rule-3\n" in text
    assert text.count("too few") == 1


def test_a_symptom_of_two_causes_is_told_once(report: Report) -> None:
    other = replace(report.results[0], rule="nll-without-log-softmax", explains=("cannot-overfit",))
    text = terminal.render(replace(report, results=(*report.results, other)), width=80, color=False)
    assert text.count("loss 1.62 after 200 steps") == 1
    assert "FAIL  cannot-overfit: see above" in text


def test_numbers_that_the_message_names_are_not_told_twice(report: Report) -> None:
    finding = Finding("300 of 1,600 samples are shared", numbers={"shared": 300, "samples": 1600})
    result = replace(report.results[0], findings=(finding,))
    told = terminal.render(replace(report, results=(result,)), width=100, color=False)
    assert "shared 300" not in told
    other = replace(result, findings=(replace(finding, numbers={"shared": 300, "by chance": 0.25}),))
    told = terminal.render(replace(report, results=(other,)), width=100, color=False)
    assert "shared 300, by chance 0.25" in told


def test_what_to_do_about_several_in_a_row_is_told_once(report: Report) -> None:
    several = tuple(Finding(f"query {name} differs", help=help_) for name, help_ in zip("abc", "XXY", strict=True))
    result = replace(report.results[0], findings=several)
    told = terminal.render(replace(report, results=(result,)), width=100, color=False)
    lines = [line.strip() for line in told.splitlines() if line.strip().startswith(("query", "do: "))]
    assert lines == ["query a differs", "query b differs", "do: X", "query c differs", "do: Y"]


def test_probes_that_one_error_stops_tell_it_once(report: Report) -> None:
    def stopped(rule: str, version: str, line: int) -> Result:
        said = f"RuntimeError: is at version {version}"
        finding = Finding(f"the probe stopped at {said}", Location("train.py", line))
        traceback = f"Traceback (most recent call last):\n{said}"
        common = replace(report.results[-1], outcome=Outcome.ERROR, reason="", traceback=traceback)
        return replace(common, rule=rule, summary=said, findings=(finding,))

    results = (stopped("first", 2, 7), stopped("second", 14, 7), stopped("third", 2, 8))
    text = terminal.render(replace(report, results=results), width=100, color=False)
    assert text.count("Traceback") == 2
    assert "stopped by the same error at the same place as first above" in text
    assert "version 14" not in text
    assert text.count("the probe stopped at") == 4  # the verdict, first and last; `first` and `third`


@pytest.fixture
def sound(report: Report) -> Report:
    """Twenty-one that passed, six skipped for one reason, a note and an open question."""
    passed = replace(report.results[-1], outcome=Outcome.PASS, summary="evidence of its own", reason="", findings=())
    skipped = replace(passed, outcome=Outcome.SKIP, summary="", reason="for one process")
    noted = replace(passed, rule="noted", findings=(Finding("worth knowing"),))
    open_question = replace(passed, rule="undecided", outcome=Outcome.INCONCLUSIVE, reason="too noisy")
    return replace(
        report,
        results=(
            *(replace(passed, rule=f"passed-{number}") for number in range(21)),
            *(replace(skipped, rule=f"skipped-{number}") for number in range(6)),
            noted,
            open_question,
        ),
        notices=(),
    )


def test_what_is_settled_is_counted_by_stage(sound: Report) -> None:
    text = terminal.render(sound, width=80, color=False)
    assert "FOR ONE REASON\nSKIP     6 items: for one process\n\nPASSED AND SKIPPED\ntraining    21 passed\n" in text
    assert "passed-3" not in text
    assert "note     `--verbose` tells what passed and what was skipped" in text


def test_what_somebody_should_know_is_told_beside_the_counts(sound: Report) -> None:
    text = terminal.render(sound, width=80, color=False)
    assert re.search(r"^NOTE     .*\n( .*\n)* +worth knowing\n", text, re.MULTILINE)
    assert "         too noisy\n" in text


def test_verbose_tells_everything(sound: Report) -> None:
    text = terminal.render(sound, width=80, color=False, verbose=True)
    assert text.count("evidence of its own") == 23
    assert "SKIP     6 items: for one process\n         skipped-0, skipped-1," in text
    assert "PASSED AND SKIPPED" not in text
    assert "--verbose" not in text


def test_few_that_are_settled_are_told_without_being_asked(sound: Report) -> None:
    text = terminal.render(replace(sound, results=sound.results[:20]), width=80, color=False)
    assert text.count("evidence of its own") == 20
    assert "--verbose" not in text


def test_what_lint_did_not_find_out_overrules_nothing_and_is_not_told(report: Report) -> None:
    first = report.results[0]
    skipped = replace(first, by=By.LINT, outcome=Outcome.SKIP, reason="no loss", findings=())
    text = terminal.render(replace(report, results=(first, skipped)), width=80, color=False)
    assert "no loss" not in text


def test_lint_does_not_count_findings_that_stand_beneath(report: Report) -> None:
    read = replace(report.results[0], by=By.LINT, summary="1 finding in 23 files")
    text = terminal.render(replace(report, results=(read,)), width=80, color=False)
    assert "1 finding in 23 files" not in text
    silent = replace(read, outcome=Outcome.PASS, summary="nothing found in 23 files", findings=())
    assert "nothing found in 23 files" in terminal.render(replace(report, results=(silent,)), width=80, color=False)
