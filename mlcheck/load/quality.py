"""How good the answers are: on labelled queries, by class and group, weighted by traffic, against the live model."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mlcheck.load.binomial import Z_95, Interval, mcnemar, paired_difference, wilson
from mlcheck.load.queries import BadQueries, Query

Floats = npt.NDArray[np.float64]
_DRAWS = 2000


@dataclass(frozen=True, slots=True)
class Labelled:
    """One labelled query with what the models said. `key` is equal for queries that differ in form alone."""

    name: str
    key: str
    label: Hashable
    predicted: Hashable
    live: Hashable | None
    group: str
    frequency: float
    score: float | None
    error: str = ""

    @property
    def right(self) -> bool:
        return not self.error and self.predicted == self.label


@dataclass(frozen=True, slots=True)
class LabelledRun:
    """All labelled queries, answered. `live_silent` says why the live version gave no answers, if it was asked."""

    items: tuple[Labelled, ...]
    live_silent: str = ""

    @property
    def compared(self) -> tuple[Labelled, ...]:
        """Those for which the live model's answer is known."""
        return tuple(item for item in self.items if item.live is not None)


def join(
    queries: Sequence[Query],
    answers: Sequence[dict[str, Any]],
    live: Sequence[dict[str, Any]] | None = None,
    live_silent: str = "",
) -> LabelledRun:
    """Labels with answers; `answers` hold `label` and `score`, or `error`. Raises BadQueries for a label of no kind.

    `live` are the answers of the live version; without them, those that the queries bring.
    """
    said = [_live_label(query, live[place] if live else None) for place, query in enumerate(queries)]
    items = tuple(_joined(*three) for three in zip(queries, answers, said, strict=True))
    return LabelledRun(items, live_silent)


def _live_label(query: Query, answer: dict[str, Any] | None) -> Any:
    """What the live version says; an error is an answer too, and a wrong one."""
    if answer is None:
        return query.given.get("live")
    return f"raised {answer['error']}" if "error" in answer else answer.get("label")


def _joined(query: Query, answer: dict[str, Any], live: Any) -> Labelled:
    given = query.given
    label, predicted = given["label"], answer.get("label")
    if not isinstance(label, Hashable):
        raise BadQueries(f"{query.source}: `label` must be a text or a number, not {json.dumps(label)[:60]}")
    score = answer.get("score")
    return Labelled(
        name=query.name,
        key=normalised(query.input if query.input is not None else query.name),
        label=label,
        predicted=predicted if isinstance(predicted, Hashable) else None,
        live=live if isinstance(live, Hashable) else None,
        group=str(given.get("group", "")),
        frequency=float(given.get("frequency", 1.0)),
        score=float(score) if isinstance(score, int | float) else None,
        error=answer.get("error", ""),
    )


def normalised(value: Any) -> str:
    """A query without what does not matter: Unicode form NFKC, case, spaces at the ends and doubled ones."""
    if isinstance(value, str):
        return json.dumps(" ".join(unicodedata.normalize("NFKC", value).casefold().split()))
    if isinstance(value, dict):
        return json.dumps({key: normalised(entry) for key, entry in sorted(value.items())})
    if isinstance(value, list):
        return json.dumps([normalised(entry) for entry in value])
    return repr(value)


class Share(NamedTuple):
    """A rate among `n` items of one class or group."""

    name: str
    rate: Interval
    n: int


def accuracy(items: Sequence[Labelled]) -> Interval:
    return wilson(sum(item.right for item in items), len(items))


def by(items: Sequence[Labelled], name: Callable[[Labelled], Hashable]) -> list[Share]:
    """The share of right answers in each part, the worst first. By label it is the recall of each class."""
    parts: dict[Hashable, list[Labelled]] = {}
    for item in items:
        parts.setdefault(name(item), []).append(item)
    shares = [Share(str(part), accuracy(inside), len(inside)) for part, inside in parts.items()]
    return sorted(shares, key=lambda share: (share.rate.value, -share.n))


def unique(items: Sequence[Labelled]) -> list[Labelled]:
    """Each query once, the first of those that are the same."""
    return list({item.key: item for item in reversed(items)}.values())[::-1]


class Weighted(NamedTuple):
    """Accuracy over the traffic: each query as often as it is asked. `effective` is n_eff = (sum w)^2 / sum w^2."""

    rate: Interval
    effective: float
    queries: int


def weighted_accuracy(items: Sequence[Labelled], seed: int = 0) -> Weighted:
    """Frequencies are summed over the same queries; the 95 % interval is a bootstrap over different ones.

    The interval is at least Wilson's for the effective number of queries: a bootstrap over few that are all
    right has no width.
    """
    weights: dict[str, float] = {}
    right: dict[str, float] = {}
    for item in items:
        weights[item.key] = weights.get(item.key, 0.0) + item.frequency
        right[item.key] = right.get(item.key, 0.0) + item.frequency * item.right
    w, r = np.array(list(weights.values())), np.array(list(right.values()))
    if not len(w):
        return Weighted(Interval(math.nan, math.nan, math.nan), 0.0, 0)
    rate, effective = float(r.sum() / w.sum()), float(w.sum() ** 2 / (w**2).sum())
    random = np.random.default_rng(seed)
    drawn = [random.integers(len(w), size=len(w)) for _ in range(_DRAWS)]
    low, high = np.quantile([float(r[pick].sum() / w[pick].sum()) for pick in drawn], (0.025, 0.975))
    floor = wilson(rate * effective, effective)
    return Weighted(Interval(rate, min(float(low), floor.low), max(float(high), floor.high)), effective, len(w))


def macro_f1(items: Sequence[Labelled], seed: int = 0) -> Interval:
    """The mean over classes of F1, with a 95 % bootstrap interval, drawn within each class."""
    names = sorted({item.label for item in items} | {item.predicted for item in items}, key=repr)
    place = {name: number for number, name in enumerate(names)}
    truth = np.array([place[item.label] for item in items])
    said = np.array([place[item.predicted] for item in items])
    labels = np.unique(truth)
    random = np.random.default_rng(seed)
    inside = [np.flatnonzero(truth == label) for label in labels]
    draws = [
        _f1(truth[pick], said[pick], labels, len(names))
        for pick in (np.concatenate([random.choice(part, len(part)) for part in inside]) for _ in range(_DRAWS))
    ]
    low, high = np.quantile(draws, (0.025, 0.975))
    return Interval(_f1(truth, said, labels, len(names)), float(low), float(high))


def _f1(truth: npt.NDArray[Any], said: npt.NDArray[Any], labels: npt.NDArray[Any], kinds: int) -> float:
    hits = np.bincount(truth[truth == said], minlength=kinds)
    total = np.bincount(truth, minlength=kinds) + np.bincount(said, minlength=kinds)
    return float(np.mean(2 * hits[labels] / total[labels]))


def auc(scores: Floats, positive: npt.NDArray[np.bool_]) -> Interval:
    """The area under the ROC curve, ties counted half, with DeLong's 95 % interval. NaN without both classes."""
    above, below = scores[positive], scores[~positive]
    m, n = len(above), len(below)
    if not m or not n:
        return Interval(math.nan, math.nan, math.nan)
    ranks = middle_ranks(np.concatenate((above, below)))
    of_above = (ranks[:m] - middle_ranks(above)) / n
    of_below = 1 - (ranks[m:] - middle_ranks(below)) / m
    area = float(of_above.mean())
    if min(m, n) < 2:
        return Interval(area, math.nan, math.nan)
    half = Z_95 * math.sqrt(float(of_above.var(ddof=1)) / m + float(of_below.var(ddof=1)) / n)
    return Interval(area, max(0.0, area - half), min(1.0, area + half))


def middle_ranks(values: Floats) -> Floats:
    """Ranks from 1; equal values share the middle of theirs."""
    ordered = np.sort(values)
    first = np.searchsorted(ordered, values, side="left")
    last = np.searchsorted(ordered, values, side="right")
    middle: Floats = (first + last + 1) / 2
    return middle


class Paired(NamedTuple):
    """Two models on the same queries. `gained` only the new one gets right, `lost` only the live one."""

    gained: int
    lost: int
    n: int
    p_value: float
    difference: Interval


def against_live(items: Sequence[Labelled]) -> Paired:
    gained = sum(item.right and item.live != item.label for item in items)
    lost = sum(not item.right and item.live == item.label for item in items)
    return Paired(gained, lost, len(items), mcnemar(gained, lost), paired_difference(gained, lost, len(items)))
