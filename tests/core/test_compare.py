"""What changed between two reports."""

from dataclasses import replace

from mlcheck.core.compare import compare, surroundings
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import By, Outcome, Severity, Stage
from mlcheck.core.report import Change, Report, Result


def result(rule: str, outcome: Outcome, *fingerprints: str, reason: str = "") -> Result:
    findings = tuple(Finding(f"{rule} is wrong", Location("a.py", 1), fingerprint=each) for each in fingerprints)
    return Result(rule, rule, Stage.DATA, Severity.ERROR, By.LINT, outcome, reason=reason, findings=findings)


def changes(before: list[Result], after: list[Result]) -> tuple[Change, ...]:
    return compare(Report("lint", ".", tuple(before)), Report("lint", ".", tuple(after)))


def test_nothing_wrong_then_and_now_is_no_change() -> None:
    calm = [result("a", Outcome.PASS), result("b", Outcome.SKIP), result("c", Outcome.PENDING)]
    assert changes(calm, calm) == ()


def test_new_mended_gone_and_still_there_in_this_order() -> None:
    before = [
        result("skipped", Outcome.FAIL, "x"),
        result("absent", Outcome.WARN, "x"),
        result("fixed", Outcome.FAIL, "x"),
        result("waived", Outcome.ERROR),
        result("stays", Outcome.FAIL, "x", "y"),
    ]
    after = [
        result("skipped", Outcome.SKIP, reason="no loss here"),
        result("fixed", Outcome.PASS),
        result("waived", Outcome.WAIVED),
        result("stays", Outcome.WARN, "y", "z", "w"),
        result("fresh", Outcome.FAIL, "x"),
    ]
    assert [(change.kind, change.rule) for change in changes(before, after)] == [
        ("new", "fresh"),
        ("fixed", "fixed"),
        ("waived", "waived"),
        ("gone", "absent"),
        ("gone", "skipped"),
        ("still", "stays"),
    ]
    by_rule = {change.rule: change for change in changes(before, after)}
    assert (by_rule["stays"].came, by_rule["stays"].went) == (2, 1)
    assert by_rule["skipped"].said == "skip this time: no loss here"
    assert by_rule["absent"].said == "it was not asked this time"


def test_findings_without_a_fingerprint_are_told_apart_by_where_they_are() -> None:
    one = result("a", Outcome.FAIL, "")
    (change,) = changes([one], [one])
    assert (change.kind, change.came, change.went) == ("still", 0, 0)


def test_other_versions_and_other_data_are_told() -> None:
    before = {
        "torch": "2.12.0",
        "file a.csv": "3 bytes",
        "file b.csv": "4 bytes",
        "cpu threads": "1",
        "python": "3.11.7",
    }
    after = {
        "torch": "2.13.0",
        "file a.csv": "5 bytes",
        "file c.csv": "4 bytes",
        "cpu threads": "2",
        "python": "3.11.7",
    }
    told = surroundings(Report("check", "x", (), before), Report("check", "x", (), after))
    assert told == ("torch: 2.12.0 became 2.13.0", "file a.csv: 3 bytes became 5 bytes")


def test_numbers_that_a_team_set_otherwise_are_told() -> None:
    def reported(*results: Result) -> Report:
        return Report("probe", "x", results)

    one, other = result("a", Outcome.PASS), result("b", Outcome.PASS)
    before = reported(replace(one, options={"share": 0.5, "steps": 10}), other)
    after = reported(replace(one, options={"steps": 20}), replace(other, options={"rms": 100}))
    assert surroundings(before, after) == (
        "option `share` of a: 0.5 became its default",
        "option `steps` of a: 10 became 20",
        "option `rms` of b: its default became 100",
    )
    assert surroundings(before, before) == ()
    assert surroundings(reported(), after) == ()  # a rule that was not asked then was not set otherwise
