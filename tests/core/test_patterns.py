"""Patterns that are compiled late do what those compiled at once do."""

from __future__ import annotations

import re
import sys

import pytest

from mlcheck.core.check import find_checks
from mlcheck.core.patterns import pattern
from mlcheck.lint import checks


def test_it_answers_as_a_compiled_one() -> None:
    late, early = pattern(r"(\w)(\d)", re.IGNORECASE), re.compile(r"(\w)(\d)", re.IGNORECASE)
    text = "a1 b2"
    assert late.sub(r"\2\1", text) == early.sub(r"\2\1", text) == "1a 2b"
    assert late.findall(text) == early.findall(text) == [("a", "1"), ("b", "2")]
    assert late.fullmatch(text) is None
    assert (late.pattern, late.flags, late.groups) == (early.pattern, early.flags, early.groups)


def test_nothing_is_compiled_before_it_is_asked() -> None:
    broken = pattern("(")
    with pytest.raises(re.error):
        broken.search("x")


def test_every_pattern_of_lint_can_be_compiled() -> None:
    find_checks(checks)
    lint = [module for name, module in sys.modules.items() if name.startswith("mlcheck.lint.")]
    found = [value for module in lint for value in vars(module).values() if isinstance(value, type(pattern("")))]
    assert len(found) > 50
    assert all(each.flags for each in found)


@pytest.mark.parametrize("text", ["a gamma here", "discounted", "gam_ma", ""])
def test_words_change_nothing_but_the_time(text: str) -> None:
    named, plain = pattern(r"gamma\b|discount", words=["gamma", "discount"]), pattern("gamma|discount")
    assert bool(named.search(text)) == bool(re.search(r"gamma\b|discount", text))
    assert bool(plain.search(text)) == bool(re.search("gamma|discount", text))
    assert plain.findall(text) == re.findall("gamma|discount", text)


def test_bounds_are_kept_where_words_are_named() -> None:
    plain = pattern("gamma|discount")
    found = plain.search("gamma discount", 1)
    assert found is not None
    assert found[0] == "discount"
    assert plain.search("gamma discount", 1, 4) is None
