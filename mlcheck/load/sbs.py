"""Side-by-side judgements (SBS): which of two answers people prefer, and whether that is more than chance."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from mlcheck.core.mistake import Mistake
from mlcheck.load.binomial import Interval, sign_test, wilson

CHOICES = ("left", "right", "tie", "both-bad")


class BadJudgements(Mistake):
    """A file of judgements, or its key, that cannot be used."""


class Judgement(NamedTuple):
    """What one rater said of one item. `new_on_left` is what the rater could not know."""

    item: str
    rater: str
    choice: str
    new_on_left: bool

    @property
    def preferred(self) -> str:
        """`new`, `live`, or neither as it was said."""
        if self.choice not in ("left", "right"):
            return self.choice
        return "new" if (self.choice == "left") == self.new_on_left else "live"


@dataclass(frozen=True, slots=True)
class Judgements:
    """All that raters said, and how many items the sheet had."""

    judgements: tuple[Judgement, ...]
    items: int


def read_judgements(key: Path, answers: Sequence[Path]) -> Judgements:
    """The answers of all raters, with the key that tells the sides. Raises BadJudgements for what does not fit."""
    sides = _sides(key)
    found: dict[tuple[str, str], Judgement] = {}
    for path in answers:
        for line, row in _rows(path):
            item, rater, choice = row["item"], row["rater"], row["choice"].strip().lower()
            if item not in sides:
                raise BadJudgements(f"{path}:{line}: the item {item!r} is not in {key}")
            if choice not in CHOICES:
                raise BadJudgements(
                    f"{path}:{line}: `choice` must be one of {', '.join(CHOICES)}, not {row['choice']!r}"
                )
            if (item, rater) in found:
                raise BadJudgements(f"{path}:{line}: {rater!r} judges the item {item!r} a second time")
            found[item, rater] = Judgement(item, rater, choice, sides[item])
    if not found:
        raise BadJudgements(f"{', '.join(map(str, answers))}: holds no judgement")
    return Judgements(tuple(found.values()), len(sides))


def _sides(key: Path) -> dict[str, bool]:
    try:
        data = json.loads(key.read_text(encoding="utf-8"))
        return {str(item): side == "left" for item, side in data["new_is"].items()}
    except OSError as error:
        raise BadJudgements(f"{key}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BadJudgements(f"{key}: is no key that `mlcheck sbs make` wrote") from None


def _rows(path: Path) -> list[tuple[int, Mapping[str, str]]]:
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            missing = {"item", "rater", "choice"} - set(reader.fieldnames or ())
            if missing:
                raise BadJudgements(f"{path}:1: has no column `{min(missing)}`; it needs item, rater, choice")
            rows: list[tuple[int, Mapping[str, str]]] = [(reader.line_num, row) for row in reader]
    except OSError as error:
        raise BadJudgements(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise BadJudgements(f"{path}: not UTF-8 at byte {error.start}") from None
    for line, row in rows:
        if not all(isinstance(row[name], str) and row[name] for name in ("item", "rater", "choice")):
            raise BadJudgements(f"{path}:{line}: item, rater and choice must all be filled in")
    return rows


@dataclass(frozen=True, slots=True)
class Preference:
    """What the judgements come to, one vote an item.

    `p_value` is the exact sign test over wins and losses and alone decides; `rate` is shown with Wilson's interval.
    `half` counts a tie as half a win. `left_p` tests whether raters prefer a side. `agreement` is Fleiss' kappa
    where items have several raters, None otherwise.
    """

    wins: int
    losses: int
    ties: int
    both_bad: int
    p_value: float
    rate: Interval
    half: float
    left: int
    right: int
    left_p: float
    raters: int
    agreement: float | None


def preference(found: Judgements) -> Preference:
    """Several raters of an item are one vote, by majority; a draw among them is a tie."""
    votes = Counter(_majority([one.preferred for one in group]) for group in _by_item(found.judgements).values())
    wins, losses = votes["new"], votes["live"]
    sides = Counter(one.choice for one in found.judgements)
    total = sum(votes.values())
    return Preference(
        wins=wins,
        losses=losses,
        ties=votes["tie"],
        both_bad=votes["both-bad"],
        p_value=sign_test(wins, losses),
        rate=wilson(wins, wins + losses),
        half=(wins + (total - wins - losses) / 2) / total,
        left=sides["left"],
        right=sides["right"],
        left_p=sign_test(sides["left"], sides["right"]),
        raters=len({one.rater for one in found.judgements}),
        agreement=fleiss_kappa([[one.preferred for one in group] for group in _by_item(found.judgements).values()]),
    )


def _by_item(judgements: Sequence[Judgement]) -> dict[str, list[Judgement]]:
    groups: dict[str, list[Judgement]] = {}
    for one in judgements:
        groups.setdefault(one.item, []).append(one)
    return groups


def _majority(said: Sequence[str]) -> str:
    """New against live by count; without either, what most said of the rest."""
    counted = Counter(said)
    if counted["new"] != counted["live"]:
        return "new" if counted["new"] > counted["live"] else "live"
    return "both-bad" if counted["both-bad"] > counted["tie"] + counted["new"] + counted["live"] else "tie"


def fleiss_kappa(groups: Sequence[Sequence[str]]) -> float | None:
    """Agreement beyond chance (Fleiss, 1971) over the items with the most usual number of raters; None for one."""
    sizes = Counter(len(group) for group in groups if len(group) > 1)
    if not sizes:
        return None
    raters = sizes.most_common(1)[0][0]
    counts = [Counter(group) for group in groups if len(group) == raters]
    whole = Counter[str]()
    for counted in counts:
        whole.update(counted)
    total = len(counts) * raters
    by_chance = sum((count / total) ** 2 for count in whole.values())
    seen = sum(sum(c * (c - 1) for c in counted.values()) for counted in counts) / (total * (raters - 1))
    return 1.0 if by_chance == 1.0 else (seen - by_chance) / (1 - by_chance)
