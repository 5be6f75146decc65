"""Words in a text, as regular expressions would find them."""

from __future__ import annotations

import re

import pytest

from mlcheck.lint.words import lines_with, numbers_of_lines, occurrences

TEXT = "key = keys[key]\n\nself.key, monkey\r\n'key'"


@pytest.mark.parametrize("word", ["key", "keys", "self.key", "lock"])
def test_words_stand_by_themselves(word: str) -> None:
    expected = len(re.findall(rf"(?<!\w){re.escape(word)}(?!\w)", TEXT))
    assert occurrences(word, TEXT) == expected
    assert occurrences(word, TEXT, most=1) == min(expected, 1)


@pytest.mark.parametrize("text", [TEXT, TEXT + "\n", "", "key", "\nkey"])
@pytest.mark.parametrize("word", ["key", "monk", "lock"])
def test_lines_are_told_once_each(text: str, word: str) -> None:
    assert list(lines_with(word, text)) == [line for line in text.split("\n") if word in line]


@pytest.mark.parametrize("words", [("",), ("grad", "step")])
def test_lines_are_numbered_as_they_stand(words: tuple[str, ...]) -> None:
    text = "x\ngrad = 1\n\nno_grad\nstep.grad; grad\nlast"
    assert numbers_of_lines(re.compile(r"\bgrad\b|last"), text, words) == [2, 5, 6][: 3 if words == ("",) else 2]
    assert numbers_of_lines(re.compile("nothing"), text, words) == []
    assert numbers_of_lines(re.compile("^x"), "", words) == []
