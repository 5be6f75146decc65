"""Answers as plain data, held against what was expected."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from mlcheck.load.compare import difference, judge, label_of, not_finite, plain, ranking, without


class Box(NamedTuple):
    x: int
    y: float


@dataclass
class Answer:
    label: str
    scores: Any


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (torch.tensor([[1.5, 2.0]], requires_grad=True), [[1.5, 2.0]]),
        (torch.tensor(3), 3),
        (torch.tensor([1.5], dtype=torch.bfloat16), [1.5]),
        (np.float32(0.5), 0.5),
        (np.array([[True]]), [[True]]),
        (Box(1, 2.0), {"x": 1, "y": 2.0}),
        (Answer("a", torch.tensor([1.0])), {"label": "a", "scores": [1.0]}),
        ({1: (2, {3})}, {"1": [2, [3]]}),
        (b"\x00\xff", "00ff"),
        (None, None),
    ],
)
def test_answers_become_plain(value: Any, expected: Any) -> None:
    assert plain(value) == expected


@pytest.mark.parametrize(
    ("answer", "expected", "told"),
    [
        ({"a": [1, 2.0]}, {"a": [1, 2.0 + 1e-7]}, ""),
        ({"a": [1, 2.0]}, {"a": [1, 2.1]}, "answer.a[1] is 2.0, expected 2.1"),
        ({"a": 1}, {"a": 1, "b": 2}, "answer has no `b`"),
        ({"a": 1, "b": 2}, {"a": 1}, "answer has an unexpected `b`"),
        ([1, 2], [1], "answer has 2 entries, expected 1"),
        (math.nan, math.nan, ""),
        (math.nan, 1.0, "answer is NaN, expected 1.0"),
        (math.inf, math.inf, ""),
        (1, True, "answer is 1, expected true"),
        (1, 1.0, ""),
        ("1", 1, 'answer is "1", expected 1'),
        (None, None, ""),
    ],
)
def test_the_first_difference_is_named(answer: Any, expected: Any, told: str) -> None:
    assert difference(answer, expected) == told


@pytest.mark.parametrize(
    ("answer", "case", "passes"),
    [
        ({"label": "cat", "p": 0.9}, {"expect": "cat", "compare": "label"}, True),
        ({"label": "cat", "p": 0.9}, {"expect": {"label": "cat"}, "compare": "label"}, True),
        ([0.1, 0.7, 0.2], {"expect": 1, "compare": "label"}, True),
        ([0.1, 0.7, 0.2], {"expect": 0, "compare": "label"}, False),
        ([0.1, 0.7, 0.2], {"expect": 2, "compare": "topk", "k": 2}, True),
        ([0.1, 0.7, 0.2], {"expect": 0, "compare": "topk", "k": 2}, False),
        ({"cat": 0.2, "dog": 0.8}, {"expect": "dog", "compare": "topk", "k": 1}, True),
        ([1.0], {"expect": [1.005], "compare": "allclose", "rtol": 0.01}, True),
        ([1.0], {"expect": [1.0000001], "compare": "exact"}, False),
        ([1.0], {"expect": [1.0], "compare": "exact"}, True),
        ("order 4711 found", {"expect": r"order \d+", "compare": "regex"}, True),
        ({"text": "none"}, {"expect": r"order \d+", "compare": "regex"}, False),
        ({"a": 1}, {"expect": {"a": 1}}, True),
    ],
)
def test_every_way_to_compare(answer: Any, case: dict[str, Any], passes: bool) -> None:
    assert (judge(answer, case) == "") is passes


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        ("cat", "cat"),
        ({"class": 3}, 3),
        ({"label": [0.2, 0.8]}, 1),
        ([[0.2, 0.8]], 1),
        ({"scores": {"a": 1, "b": 2}}, "b"),
        ([{"label": "x", "score": 1}], "x"),
        (2.0, 2),
        (2.5, None),
        ({"text": "hello"}, None),
        ([], None),
    ],
)
def test_the_label_of_an_answer(answer: Any, label: Any) -> None:
    assert label_of(answer) == label


def test_a_ranking_is_from_the_best() -> None:
    assert ranking([0.1, 0.5, 0.4]) == [1, 2, 0]


def test_fields_that_may_change_are_left_out() -> None:
    assert without({"a": [{"took_ms": 3, "b": 1}], "took_ms": 4}, ("took_ms",)) == {"a": [{"b": 1}]}


def test_the_place_of_what_is_not_finite() -> None:
    assert not_finite({"a": [1.0, {"b": math.inf}]}) == "answer.a[1].b"
    assert not_finite({"a": [1.0, "nan", None, 3]}) == ""
