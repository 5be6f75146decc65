"""Outside text is shown whole where it is short, visibly where it is not printable, cut where it is endless."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from mlcheck.report.safe import block, one_line, visible


def test_what_cannot_be_seen_is_written_out() -> None:
    assert visible("\x1b[31m a\x00b \u202ecod.exe \udcff \x9b") == "\\x1b[31m a\\x00b \\u202ecod.exe \\udcff \\x9b"


def test_ordinary_text_in_any_script_is_left_alone() -> None:
    text = "naïve Zürich 模型 مدل модель 👩‍💻 ∂L/∂w ≤ 0.5\tok"
    assert visible(text) == text


@given(st.text(st.characters()))
def test_one_line_is_one_printable_line(text: str) -> None:
    line = one_line(text)
    assert len(line.splitlines()) <= 1
    line.encode("utf-8")
    assert not any(unicodedata.category(character) in {"Cc", "Cs"} for character in line)


def test_a_long_line_keeps_both_ends_and_says_what_is_gone() -> None:
    line = one_line("start" + "x" * 1_000_000 + "end", limit=100)
    assert line.startswith("start")
    assert line.endswith("end")
    assert "999,908 characters left out" in line
    assert len(line) < 150


def test_a_long_traceback_keeps_its_first_line_and_its_end() -> None:
    text = "\n".join(["Traceback (most recent call last):", *(f"  frame {n}" for n in range(500)), "ValueError: no"])
    lines = block(text, max_lines=10).split("\n")
    assert lines[0] == "Traceback (most recent call last):"
    assert "lines left out" in lines[1]
    assert lines[-1] == "ValueError: no"
    assert len(lines) <= 11


def test_a_short_block_is_untouched() -> None:
    assert block("a\n  b\n", max_lines=5) == "a\n  b"
