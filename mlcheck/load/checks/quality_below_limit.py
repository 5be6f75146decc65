"""Judges accuracy, recall of each class, groups, F1 and AUC on labelled queries, by the lower end of an interval."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding
from mlcheck.core.outcome import Outcome
from mlcheck.load.binomial import Interval
from mlcheck.load.handover import Held, held_against_limits, reaches
from mlcheck.load.limits import Limits
from mlcheck.load.percentiles import Decision
from mlcheck.load.quality import Labelled, LabelledRun, Share, accuracy, auc, by, macro_f1, unique
from mlcheck.load.wording import percent

_SHOWN = 40


class _Score(NamedTuple):
    name: str
    value: Interval
    limit: float | None
    n: int

    @property
    def decision(self) -> Decision | None:
        """By the whole interval; None without a limit."""
        return None if self.limit is None else reaches(self.value, self.limit)


def check(run: LabelledRun, limits: Limits) -> Verdict:
    items = unique(run.items)
    scores = list(_scores(items, limits))
    classes, groups = by(items, lambda item: item.label), by([i for i in items if i.group], lambda item: item.group)
    figures = (*_held(scores), _table("Scores", scores), *_share_tables(classes, groups))
    whole = scores[0].value
    summary = f"accuracy {percent(whole)} on {len(items):,} different labelled queries"
    if classes:
        summary += f"; worst class {classes[0].name!r} {percent(classes[0].rate)}"
    failed = [item for item in run.items if item.error]
    broken = [score for score in scores if score.decision is Decision.BROKEN]
    waiting = [score for score in scores if score.decision is Decision.OPEN]
    looked_at = len(items)
    if broken:
        findings = [Finding(f"{s.name} is {percent(s.value)}, below {s.limit:.2%} (n = {s.n:,})") for s in broken]
        findings += [Finding(f"query {item.name!r} raised {item.error}") for item in failed[:3]]
        return Verdict(Outcome.FAIL, summary, findings=tuple(findings), figures=figures, looked_at=looked_at)
    if waiting:
        first = waiting[0]
        more = f"; {len(waiting) - 1} more undecided" if len(waiting) > 1 else ""
        reason = f"{first.name} is {percent(first.value)}, and {first.limit:.2%} lies inside: label more queries{more}"
        return Verdict(Outcome.INCONCLUSIVE, summary, reason, figures=figures, looked_at=looked_at)
    if all(score.limit is None for score in scores):
        reason = "measured, but no limit is stated to judge it by: set [quality] in the SLO file"
        return Verdict(Outcome.INCONCLUSIVE, summary, reason, figures=figures, looked_at=looked_at)
    return Verdict(Outcome.PASS, summary, figures=figures, looked_at=looked_at)


def _scores(items: list[Labelled], limits: Limits) -> Iterator[_Score]:
    stated = limits.quality
    yield _Score("accuracy", accuracy(items), stated.accuracy_min, len(items))
    yield _Score("the mean F1 of the classes", macro_f1(items), stated.macro_f1_min, len(items))
    scored = [item for item in items if item.score is not None]
    labels = sorted({item.label for item in scored}, key=repr)
    if len(labels) == 2:
        positive = labels[1]
        area = auc(np.array([item.score for item in scored]), np.array([item.label == positive for item in scored]))
        yield _Score(f"the AUC of {positive!r}", area, stated.auc_min, len(scored))
    for share in by(items, lambda item: item.label):
        yield _Score(f"the recall of class {share.name!r}", share.rate, stated.class_recall_min, share.n)
    for share in by([item for item in items if item.group], lambda item: item.group):
        yield _Score(f"the accuracy of group {share.name!r}", share.rate, stated.group_accuracy_min, share.n)


def _held(scores: list[_Score]) -> tuple[Figure, ...]:
    """Of the classes and of the groups, which share a limit, the worst alone."""
    return held_against_limits(
        Held(_shared(score.name), f">= {score.limit:.2%}", percent(score.value), score.decision, -score.value.value)
        for score in scores
        if score.limit is not None and score.decision is not None
    )


def _shared(name: str) -> str:
    for start, told in (("the recall of class", "worst class recall"), ("the accuracy of group", "worst group")):
        if name.startswith(start):
            return told
    return name.removeprefix("the ")


def _table(title: str, scores: list[_Score]) -> Figure:
    rows = [
        [score.name, percent(score.value), f"{score.limit:.2%}" if score.limit is not None else "", score.n]
        for score in scores
        if not score.name.startswith(("the recall", "the accuracy of group"))
    ]
    return Figure("table", title, {"columns": ["score", "value and 95 % interval", "at least", "n"], "rows": rows})


def _share_tables(classes: list[Share], groups: list[Share]) -> Iterator[Figure]:
    for title, shares, word in (
        ("Recall by class, worst first", classes, "class"),
        ("Accuracy by group", groups, "group"),
    ):
        if shares:
            rows = [[share.name, percent(share.rate), share.n] for share in shares[:_SHOWN]]
            yield Figure("table", title, {"columns": [word, "right, with 95 % interval", "n"], "rows": rows})
