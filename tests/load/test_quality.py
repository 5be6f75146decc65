"""Quality of answers: against scikit-learn, scipy and brute force."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from sklearn import metrics

from mlcheck.load.quality import (
    Labelled,
    accuracy,
    against_live,
    auc,
    by,
    join,
    macro_f1,
    normalised,
    unique,
    weighted_accuracy,
)
from mlcheck.load.queries import BadQueries, Query


def item(label: object, predicted: object, **given: object) -> Labelled:
    defaults = {"name": "q", "key": str(given.pop("key", id(object()))), "live": None, "group": "", "frequency": 1.0}
    return Labelled(label=label, predicted=predicted, score=None, **{**defaults, **given})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def answers() -> list[Labelled]:
    random = np.random.default_rng(4)
    labels = random.choice(["a", "b", "c"], size=300, p=[0.6, 0.3, 0.1])
    said = np.where(random.random(300) < 0.8, labels, random.choice(["a", "b", "c", "d"], size=300))
    live = np.where(random.random(300) < 0.75, labels, "a")
    rows = zip(labels.tolist(), said.tolist(), live.tolist(), strict=True)
    return [item(label, one, live=other, key=str(n), group="gh"[n % 2]) for n, (label, one, other) in enumerate(rows)]


def test_scores_are_scikit_learns(answers: list[Labelled]) -> None:
    truth, said = [one.label for one in answers], [one.predicted for one in answers]
    assert accuracy(answers).value == pytest.approx(metrics.accuracy_score(truth, said), abs=1e-12)
    recalls = metrics.recall_score(truth, said, labels=["a", "b", "c"], average=None, zero_division=0)
    assert {share.name: share.rate.value for share in by(answers, lambda one: one.label)} == pytest.approx(
        dict(zip("abc", recalls, strict=True)), abs=1e-12
    )
    theirs = metrics.f1_score(truth, said, labels=["a", "b", "c"], average="macro", zero_division=0)
    found = macro_f1(answers)
    assert found.value == pytest.approx(theirs, abs=1e-12)
    assert found.low < found.value < found.high


def test_parts_come_worst_first(answers: list[Labelled]) -> None:
    rates = [share.rate.value for share in by(answers, lambda one: one.group)]
    assert rates == sorted(rates)
    assert sum(share.n for share in by(answers, lambda one: one.group)) == len(answers)


@pytest.mark.parametrize("ties", [False, True])
def test_auc_is_scikit_learns(ties: bool) -> None:
    random = np.random.default_rng(2)
    positive = random.random(120) < 0.4
    scores = random.normal(size=120) + positive
    scores = np.round(scores) if ties else scores
    assert auc(scores, positive).value == pytest.approx(metrics.roc_auc_score(positive, scores), abs=1e-12)


def test_delongs_variance_by_brute_force() -> None:
    """DeLong, DeLong and Clarke-Pearson (1988): components over every pair."""
    random = np.random.default_rng(8)
    above, below = random.normal(0.8, 1, 14), random.normal(0, 1, 19)
    psi = np.array([[1.0 if x > y else 0.5 if x == y else 0.0 for y in below] for x in above])
    variance = psi.mean(axis=1).var(ddof=1) / 14 + psi.mean(axis=0).var(ddof=1) / 19
    found = auc(np.concatenate((above, below)), np.arange(33) < 14)
    assert found.value == pytest.approx(psi.mean())
    assert (found.high - found.low) / 2 == pytest.approx(1.959963984540054 * math.sqrt(variance))


def test_one_class_has_no_auc() -> None:
    assert math.isnan(auc(np.ones(3), np.ones(3, dtype=bool)).value)


def test_the_same_query_counts_once_and_by_its_traffic() -> None:
    rows = [item(1, 1, key="x", frequency=90.0), item(1, 0, key="y", frequency=5.0), item(1, 0, key="y", frequency=5.0)]
    assert len(unique(rows)) == 2
    assert accuracy(unique(rows)).value == 0.5
    found = weighted_accuracy(rows)
    assert found.rate.value == pytest.approx(0.9)
    assert found.effective == pytest.approx(100**2 / (90**2 + 10**2))
    assert found.queries == 2
    assert (found.rate.low, found.rate.high) == (0.0, 1.0)


def test_the_weighted_interval_covers_the_truth() -> None:
    random, hits = np.random.default_rng(5), 0
    for draw in range(50):
        weights = random.pareto(3, 150) + 1
        right = random.random(150) < 0.8
        rows = [
            item(1, int(ok), key=str(n), frequency=float(w))
            for n, (ok, w) in enumerate(zip(right, weights, strict=True))
        ]
        found = weighted_accuracy(rows, seed=draw).rate
        hits += found.low <= 0.8 <= found.high
    assert 0.9 <= hits / 50 <= 1.0


def test_two_models_are_compared_item_by_item() -> None:
    """label, new, live: gained where only the new one is right, lost where only the live one is."""
    cells = {(1, 1): 50, (1, 0): 10, (0, 1): 25, (0, 0): 15}
    rows = [
        item(1, new, live=live, key=f"{new}{live}{n}") for (new, live), count in cells.items() for n in range(count)
    ]
    found = against_live(rows)
    assert (found.gained, found.lost, found.n) == (10, 25, 100)
    assert found.p_value == pytest.approx(0.016_7, abs=1e-4)
    assert found.difference.value == pytest.approx(-0.15)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Where is  MY order? ", "where is my order?", True),
        ("ｆｕｌｌ width", "full width", True),
        ({"a": "X", "b": 1}, {"b": 1, "a": "x"}, True),
        ({"a": "x"}, {"a": "y"}, False),
        ([1, 2], [1, 3], False),
        ("1", 1, False),
    ],
)
def test_what_makes_two_queries_the_same(one: object, other: object, same: bool) -> None:
    assert (normalised(one) == normalised(other)) is same


def test_labels_are_joined_with_answers() -> None:
    queries = [
        Query({"t": 1}, "one", "f:1", {"label": "a", "live": "b", "frequency": 3}),
        Query(2, "two", "f:2", {"label": "a"}),
    ]
    found = join(queries, [{"label": "a", "score": 0.5}, {"error": "ValueError: x"}]).items
    assert [one.right for one in found] == [True, False]
    assert (found[0].live, found[0].frequency, found[0].score) == ("b", 3.0, 0.5)
    with pytest.raises(BadQueries, match=r"f:9: `label` must be a text or a number"):
        join([Query(1, "n", "f:9", {"label": [1]})], [{"label": 1}])


def test_every_pairing_of_three_classes_has_the_f1_of_its_definition() -> None:
    rows = [item(truth, said) for truth, said in product("abc", "abc")]
    assert macro_f1(rows).value == pytest.approx(1 / 3)
