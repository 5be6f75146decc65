"""Which files hold a word: found in a list of all words of the program, not by reading every file for each."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mlcheck.core.patterns import pattern

_WORD = pattern(r"\w+")


class Vocabulary:
    """The words of some texts, and which of them hold each; a set of texts is an integer with a bit for each."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._holding: dict[str, int] = {}
        self._asked: dict[str, int] = {}
        for number, text in enumerate(texts):
            for word in set(_WORD.findall(text)):
                self._holding[word] = self._holding.get(word, 0) | 1 << number
        self._words = "\n".join(("", *self._holding, ""))

    def holding(self, wanted: str) -> int:
        """The texts in which this stands, within longer words too: `.step(`, `softmax`."""
        if wanted not in self._asked:
            self._asked[wanted] = self._found(wanted)
        return self._asked[wanted]

    def _found(self, wanted: str) -> int:
        if wanted.isidentifier():
            return self._with_part(wanted)
        texts = (1 << len(self._texts)) - 1
        for part in _WORD.findall(wanted):
            texts &= self._with_part(part)
        for number in self.numbers(texts):
            if wanted not in self._texts[number]:
                texts ^= 1 << number
        return texts

    def _with_part(self, part: str) -> int:
        """The texts with a word in which this stands."""
        words, found, place = self._words, 0, self._words.find(part)
        while place >= 0:
            found |= self._holding[self._word(place, place)]
            place = words.find(part, words.index("\n", place))  # once in a word is enough
        return found

    def _word(self, start: int, end: int) -> str:
        """The whole word that a part of it stands in."""
        return self._words[self._words.rindex("\n", 0, start) + 1 : self._words.index("\n", end)]

    def matching(self, words: re.Pattern[str]) -> int:
        """The texts with a word in which the pattern matches; `^` and `$`, of several lines, are its ends."""
        found = 0
        for match in words.finditer(self._words):
            found |= self._holding[self._word(match.start(), match.end())]
        return found

    def numbers(self, texts: int) -> list[int]:
        """The numbers of these texts, in order."""
        return [number for number in range(texts.bit_length()) if texts >> number & 1]
