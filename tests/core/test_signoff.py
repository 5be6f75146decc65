"""Sign-offs and waivers: what they turn into, and what a wrong file is told."""

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from mlcheck.core.catalog import Catalog
from mlcheck.core.outcome import By, Outcome
from mlcheck.core.report import Result
from mlcheck.core.signoff import BadSignOff, sign_off_results

TODAY = date(2026, 11, 21)
SIGNED = '[sign.baseline-unknown]\nby = "Ada"\ndate = 2026-11-02\nnote = "logistic regression: 91.2 %"\n'
WAIVED = '[waive.missing-zero-grad]\nby = "Ada"\ndate = 2026-11-02\nreason = "gradients are summed on purpose"\n'


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    by = {"baseline-unknown": '["sign-off"]', "label-noise": '["probe", "sign-off"]', "missing-zero-grad": '["lint"]'}
    for name, answered in by.items():
        path = tmp_path / "rules" / "training" / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'# T\n```toml\nseverity = "warning"\nby = {answered}\n```\nWhy.\n', encoding="utf-8")
    return Catalog((tmp_path / "rules",))


@pytest.fixture
def read(tmp_path: Path, catalog: Catalog) -> Callable[..., dict[str, Result]]:
    def of(text: str, today: date = TODAY) -> dict[str, Result]:
        path = tmp_path / "signoff.toml"
        path.write_text(text, encoding="utf-8")
        return {result.rule: result for result in sign_off_results(catalog, path, today)}

    return of


def test_without_a_file_every_question_is_open(tmp_path: Path, catalog: Catalog) -> None:
    results = sign_off_results(catalog, tmp_path / "absent.toml", TODAY)
    assert [(result.rule, result.outcome) for result in results] == [
        ("baseline-unknown", Outcome.PENDING),
        ("label-noise", Outcome.PENDING),
    ]
    assert all(result.reason and result.by is By.SIGN_OFF for result in results)


def test_a_signature_passes_and_says_who_when_and_what(read: Any) -> None:
    signed = read(SIGNED + 'link = "docs/baseline.md"\nuntil = 2027-01-31\n')["baseline-unknown"]
    assert signed.outcome is Outcome.PASS
    for part in ("Ada", "2026-11-02", "2027-01-31", "logistic regression: 91.2 %", "docs/baseline.md"):
        assert part in signed.summary


def test_a_date_may_be_text_and_tomorrow_in_the_east(read: Any) -> None:
    assert read(SIGNED.replace("2026-11-02", '"2026-11-22"'))["baseline-unknown"].outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("today", "outcome"), [(date(2026, 12, 1), Outcome.PASS), (date(2026, 12, 2), Outcome.PENDING)]
)
def test_a_signature_holds_through_its_last_day(read: Any, today: Any, outcome: Outcome) -> None:
    signed = read(SIGNED + "until = 2026-12-01\n", today)["baseline-unknown"]
    assert signed.outcome is outcome
    assert "2026-12-01" in signed.summary + signed.reason


@pytest.mark.parametrize(
    ("today", "outcome"), [(date(2026, 12, 1), Outcome.WAIVED), (date(2026, 12, 2), Outcome.PENDING)]
)
def test_a_waiver_says_why_who_and_until(read: Any, today: Any, outcome: Outcome) -> None:
    waived = read(WAIVED + "until = 2026-12-01\n", today)["missing-zero-grad"]
    assert waived.outcome is outcome
    assert "Ada" in waived.reason
    assert "2026-12-01" in waived.reason


def test_a_waived_question_is_not_open_as_well(read: Any) -> None:
    results = read(WAIVED.replace("missing-zero-grad", "baseline-unknown"))
    assert results["baseline-unknown"].outcome is Outcome.WAIVED
    assert "gradients are summed on purpose" in results["baseline-unknown"].reason


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[sign]]\n", "not valid TOML.*line 1"),
        ("[signed.baseline-unknown]\n", r"unknown table \[signed\].*`sign`"),
        ("sign = 3\n", "must be tables"),
        ("\n" + SIGNED.replace("baseline-unknown", "baseline-unknwon"), ":2:.*did you mean `baseline-unknown`"),
        (SIGNED + WAIVED.replace("missing-zero-grad", "baseline-unknown"), ":5:.*keep one"),
        (SIGNED.replace('by = "Ada"\n', ""), ":1:.*`by` is missing"),
        (SIGNED.replace('"Ada"', '"  "'), "`by` must be a text"),
        (SIGNED.replace('"Ada"', "7"), "`by` must be a text"),
        (SIGNED.replace("2026-11-02", '"last week"'), "must be a day like.*'last week'"),
        (SIGNED.replace("2026-11-02", "2026-11-30"), "in the future"),
        (SIGNED + "until = 2026-01-01\n", "before `date`"),
        (SIGNED + 'untl = "x"\n', "unknown key `untl`.*`until`"),
        ("[sign]\nbaseline-unknown = true\n", "must be a table with by, date, note"),
    ],
)
def test_a_wrong_file_is_told_in_one_sentence(read: Any, text: str, told: str) -> None:
    with pytest.raises(BadSignOff, match=told) as caught:
        read(text)
    assert "signoff.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path, catalog: Catalog) -> None:
    (tmp_path / "latin.toml").write_bytes(b'note = "caf\xe9"')
    with pytest.raises(BadSignOff, match="not UTF-8 at byte 11"):
        sign_off_results(catalog, tmp_path / "latin.toml", TODAY)
    with pytest.raises(BadSignOff, match="cannot be read"):
        sign_off_results(catalog, tmp_path, TODAY)


def test_a_byte_order_mark_is_no_fault(tmp_path: Path, catalog: Catalog) -> None:
    path = tmp_path / "signoff.toml"
    path.write_bytes(b"\xef\xbb\xbf" + SIGNED.encode())
    assert sign_off_results(catalog, path, TODAY)[0].outcome is Outcome.PASS
