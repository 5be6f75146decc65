"""Words in a text, found without an expression being compiled for each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence


def lines_with(word: str, text: str) -> Iterator[str]:
    """The lines of the text in which the word stands, also as a part of another."""
    place = text.find(word)
    while place >= 0:
        end = text.find("\n", place)
        end = len(text) if end < 0 else end
        yield text[text.rfind("\n", 0, place) + 1 : end]
        place = text.find(word, end)


def occurrences(word: str, text: str, most: int = 0) -> int:
    """How often the word stands in the text by itself, as `\\b` has it; with `most`, counted no further."""
    size, found, place = len(word), 0, text.find(word)
    while place >= 0:
        end = place + size
        if not _goes_on(text[place - 1 : place]) and not _goes_on(text[end : end + 1]):
            found += 1
            if found == most:
                break
        else:
            end = place + 1
        place = text.find(word, end)
    return found


def numbers_of_lines(wanted: re.Pattern[str], text: str, words: Sequence[str] = ("",)) -> list[int]:
    """The numbers of the lines in which the pattern matches, in order; only lines with one of the words are tried."""
    starts = sorted({start for word in words for start in _starts(word, text)})
    found: list[int] = []
    number, last = 1, 0
    for start in starts:
        end = text.find("\n", start)
        if wanted.search(text, start, len(text) if end < 0 else end):
            number, last = number + text.count("\n", last, start), start
            found.append(number)
    return found


def _starts(word: str, text: str) -> Iterator[int]:
    """Where the lines begin in which the word stands."""
    place = text.find(word)
    while place >= 0:
        yield text.rfind("\n", 0, place) + 1
        end = text.find("\n", place)
        place = text.find(word, end + 1) if end >= 0 else -1


def _goes_on(character: str) -> bool:
    """Whether a word goes on with it."""
    return character.isalnum() or character == "_"


def words_of(name: str) -> list[str]:
    """`valLoader`, `val_loader` -> val, loader."""
    spaced = "".join("_" + c.lower() if c.isupper() else c for c in name) if not name.isupper() else name.lower()
    return [word for word in spaced.split("_") if word]
