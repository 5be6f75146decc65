"""Scores that people gave to the answers of both versions, such as stars from 1 to 5."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlcheck.core.mistake import Mistake
from mlcheck.load.binomial import Interval
from mlcheck.load.quality import middle_ranks

_COLUMNS = ("item", "rater", "new", "live")
_DRAWS = 4000


class BadRatings(Mistake):
    """A file of ratings that cannot be used: one sentence with file, line and fault."""


@dataclass(frozen=True, slots=True)
class Ratings:
    """Differences, new less live, averaged over the raters of each item; and the means of both."""

    differences: tuple[float, ...]
    new: float
    live: float
    raters: int


def read_ratings(path: Path) -> Ratings:
    """The ratings of a .csv file with the columns item, rater, new and live. Raises BadRatings."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise BadRatings(f"{path}:1: has no column `{missing[0]}`; it needs {', '.join(_COLUMNS)}")
            rows = [(reader.line_num, row) for row in reader]
    except OSError as error:
        raise BadRatings(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise BadRatings(f"{path}: not UTF-8 at byte {error.start}") from None
    if not rows:
        raise BadRatings(f"{path}: holds no rating")
    by_item: dict[str, list[float]] = {}
    scores: list[tuple[float, float]] = []
    for line, row in rows:
        pair = tuple(_score(row[name], name, f"{path}:{line}") for name in ("new", "live"))
        scores.append((pair[0], pair[1]))
        by_item.setdefault(str(row["item"]), []).append(pair[0] - pair[1])
    new, live = (float(np.mean(side)) for side in zip(*scores, strict=True))
    raters = len({row["rater"] for _, row in rows})
    return Ratings(tuple(float(np.mean(parts)) for parts in by_item.values()), new, live, raters)


def _score(text: object, name: str, where: str) -> float:
    try:
        value = float(str(text))
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BadRatings(f"{where}: `{name}` must be a number, not {text!r}")
    return value


def mean_difference(differences: Sequence[float], seed: int = 0) -> Interval:
    """The mean over items with a 95 % bootstrap interval; items are drawn whole, with all their raters."""
    values = np.array(differences)
    if len(values) < 2:
        return Interval(float(values.mean()) if len(values) else math.nan, math.nan, math.nan)
    random = np.random.default_rng(seed)
    means = [float(values[random.integers(len(values), size=len(values))].mean()) for _ in range(_DRAWS)]
    low, high = np.quantile(means, (0.025, 0.975))
    return Interval(float(values.mean()), float(low), float(high))


def wilcoxon(differences: Sequence[float]) -> float:
    """The two-sided p-value of Wilcoxon's signed-rank test: normal approximation, ties corrected, zeros left out."""
    values = np.array([difference for difference in differences if difference != 0.0])
    n = len(values)
    if not n:
        return 1.0
    ranks = middle_ranks(np.abs(values))
    _, ties = np.unique(np.abs(values), return_counts=True)
    variance = n * (n + 1) * (2 * n + 1) / 24 - float((ties**3 - ties).sum()) / 48
    z = (float(ranks[values > 0].sum()) - n * (n + 1) / 4) / math.sqrt(variance)
    return math.erfc(abs(z) / math.sqrt(2))
