"""What is written into a `signoff.toml`, and when what was signed has changed."""

import tomllib
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlcheck.core.outcome import By, Outcome, Severity, Stage
from mlcheck.core.report import Result
from mlcheck.core.signing import print_of_evidence, print_of_files, with_entry

OLD = """\
# our sign-offs
[sign.first]
by = "Ada"
note = "one"

# about the second
[waive.second]
reason = "two"
"""


def test_a_new_table_goes_to_the_end_and_leaves_the_rest_alone() -> None:
    text = with_entry(OLD, "sign", "third", {"by": "Bob", "date": date(2026, 11, 21), "files": ["a", "b c"]})
    assert text.startswith(OLD)
    assert tomllib.loads(text)["sign"]["third"] == {"by": "Bob", "date": date(2026, 11, 21), "files": ["a", "b c"]}
    assert with_entry("", "sign", "x", {"by": "B"}) == '[sign.x]\nby = "B"\n'


def test_an_earlier_table_is_replaced_where_it_stands() -> None:
    text = with_entry(OLD, "sign", "first", {"by": "Bob"})
    assert text == OLD.replace('by = "Ada"\nnote = "one"\n', 'by = "Bob"\n')
    assert with_entry(OLD, "waive", "second", {"reason": "new"}) == OLD.replace('"two"', '"new"')


@given(st.text(st.characters(exclude_categories=("Cs",))), st.text(st.characters(exclude_categories=("Cs",))))
def test_any_words_come_back_as_they_were(first: str, second: str) -> None:
    text = with_entry(OLD, "sign", "first", {"note": first})
    text = with_entry(text, "sign", "other", {"note": second})
    tables = tomllib.loads(text)["sign"]
    assert (tables["first"]["note"], tables["other"]["note"]) == (first, second)


def test_files_and_folders_have_a_print_of_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.csv").write_text("1")
    (tmp_path / "notes.md").write_text("n")
    paths = ["data", "notes.md"]
    first = print_of_files(paths, tmp_path)
    assert print_of_files(paths, tmp_path) == first
    (tmp_path / "elsewhere").write_text("x")
    (tmp_path / "data" / "__pycache__").mkdir()
    (tmp_path / "data" / "__pycache__" / "x.pyc").write_text("x")
    assert print_of_files(paths, tmp_path) == first
    (tmp_path / "data" / "a.csv").rename(tmp_path / "data" / "b.csv")
    renamed = print_of_files(paths, tmp_path)
    (tmp_path / "data" / "b.csv").write_text("2")
    assert len({first, renamed, print_of_files(paths, tmp_path)}) == 3
    with pytest.raises(FileNotFoundError, match="gone"):
        print_of_files(["gone"], tmp_path)


def test_evidence_has_a_print_of_its_words_and_numbers() -> None:
    def shown(summary: str, seconds: float = 0.0, **numbers: float) -> str:
        result = Result(
            "r", "R", Stage.DATA, Severity.NOTE, By.PROBE, Outcome.PENDING, summary, seconds=seconds, numbers=numbers
        )
        return print_of_evidence(result)

    assert shown("32 images", seconds=1.0) == shown("32 images", seconds=2.0)
    assert len({shown("32 images"), shown("64 images"), shown("32 images", mean=0.1)}) == 3
