"""A named tuple made cheaply is one like those that `typing` makes."""

from __future__ import annotations

import copy
import pickle
from typing import NamedTuple as Standard

import pytest

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.files.outlines import Import


class Cheap(NamedTuple):
    """Two numbers and a word."""

    first: int
    second: float = 0.5
    word: str = ""

    @property
    def total(self) -> float:
        return self.first + self.second

    def __str__(self) -> str:
        return f"{self.word}: {self.total}"


class Dear(Standard):
    first: int
    second: float = 0.5
    word: str = ""


def test_it_is_the_tuple_that_typing_makes() -> None:
    cheap, dear = Cheap(1, word="a"), Dear(1, word="a")
    assert cheap == dear == (1, 0.5, "a")
    assert hash(cheap) == hash(dear)
    assert cheap._asdict() == dear._asdict()
    assert cheap._replace(second=2.0) == (1, 2.0, "a")
    assert repr(cheap) == repr(dear).replace("Dear", "Cheap")
    assert (Cheap._fields, Cheap._field_defaults) == (Dear._fields, Dear._field_defaults)
    assert Cheap.__match_args__ == Dear.__match_args__


def test_methods_text_and_place_of_the_class_are_kept() -> None:
    assert (str(Cheap(1, word="a")), Cheap(1).total) == ("a: 1.5", 1.5)
    assert (Cheap.__doc__, Cheap.__module__, Cheap.__qualname__) == ("Two numbers and a word.", __name__, "Cheap")
    assert Cheap.__annotations__ == {"first": "int", "second": "float", "word": "str"}


def test_a_value_that_has_no_default_must_be_given() -> None:
    with pytest.raises(TypeError, match="first"):
        Cheap()  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        Cheap(1).first = 2  # type: ignore[misc]


def test_it_is_copied_and_sent_to_other_processes() -> None:
    imported = Import(0, "torch", ("nn",))
    for made in (copy.deepcopy(imported), pickle.loads(pickle.dumps(imported))):
        assert (made, type(made)) == (imported, Import)
