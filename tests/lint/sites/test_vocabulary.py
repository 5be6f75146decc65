"""Words are found in the same texts as by reading every text for each."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mlcheck.lint.sites.vocabulary import Vocabulary

_TEXTS = st.lists(st.text(alphabet="abA_1. (\n", max_size=30), max_size=5)


@given(texts=_TEXTS, wanted=st.text(alphabet="abA_1. (", min_size=1, max_size=4))
@example(texts=["AA1", "1"], wanted="1")
def test_holding_is_what_reading_finds(texts: list[str], wanted: str) -> None:
    vocabulary = Vocabulary(texts)
    assert vocabulary.numbers(vocabulary.holding(wanted)) == [n for n, text in enumerate(texts) if wanted in text]


@given(texts=_TEXTS, wanted=st.text(alphabet="abA_1", min_size=1, max_size=3))
@pytest.mark.parametrize("form", ["{}", "(?m)^{}", "(?m){}$", "(?m)^{}$"])
def test_matching_is_of_words(texts: list[str], wanted: str, form: str) -> None:
    vocabulary, words = Vocabulary(texts), re.compile(form.format(wanted), re.IGNORECASE)
    found = [n for n, text in enumerate(texts) if any(words.search(word) for word in re.findall(r"\w+", text))]
    assert vocabulary.numbers(vocabulary.matching(words)) == found


def test_nothing_is_held_by_no_texts() -> None:
    assert Vocabulary([]).holding("torch") == 0
    assert Vocabulary([]).matching(re.compile("torch")) == 0
