"""Ratings of both versions: what is read, and the statistics against scipy."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from mlcheck.load.satisfaction import BadRatings, mean_difference, read_ratings, wilcoxon


def test_raters_of_an_item_are_averaged(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("item,rater,new,live\na,Ada,5,3\na,Bob,4,4\nb,Ada,2,3\n", encoding="utf-8")
    found = read_ratings(tmp_path / "r.csv")
    assert found.differences == (1.0, -1.0)
    assert (found.new, found.live, found.raters) == (pytest.approx(11 / 3), pytest.approx(10 / 3), 2)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("item,rater,new\n", "r.csv:1: has no column `live`"),
        ("item,rater,new,live\n", "r.csv: holds no rating"),
        ("item,rater,new,live\na,Ada,5,3\na,Bob,good,3\n", "r.csv:3: `new` must be a number, not 'good'"),
        ("item,rater,new,live\na,Ada,5,inf\n", "r.csv:2: `live` must be a number, not 'inf'"),
        ("item,rater,new,live\na,Ada,5\n", "r.csv:2: `live` must be a number, not None"),
    ],
)
def test_a_wrong_table_is_one_sentence(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "r.csv").write_text(text, encoding="utf-8")
    with pytest.raises(BadRatings) as raised:
        read_ratings(tmp_path / "r.csv")
    assert told in str(raised.value)


@pytest.mark.parametrize("seed", range(8))
def test_wilcoxons_test_is_scipys(seed: int) -> None:
    differences = np.random.default_rng(seed).integers(-3, 5, size=60).astype(float)
    theirs = stats.wilcoxon(differences, zero_method="wilcox", correction=False, method="asymptotic")
    assert wilcoxon(differences.tolist()) == pytest.approx(theirs.pvalue, abs=1e-12)


def test_no_difference_at_all() -> None:
    assert wilcoxon([0.0, 0.0]) == 1.0
    assert math.isnan(mean_difference([1.0]).low)


def test_the_interval_is_about_that_of_student() -> None:
    differences = np.random.default_rng(1).normal(0.3, 1, 400)
    found = mean_difference(differences.tolist())
    half = 1.96 * differences.std(ddof=1) / 20
    assert found.low == pytest.approx(differences.mean() - half, abs=0.02)
    assert found.high == pytest.approx(differences.mean() + half, abs=0.02)
