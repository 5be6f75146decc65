"""The range of a hyperparameter in an experiment's config: the values that a grid takes of it, and what is drawn."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

MIDDLE = 0.5
_FEW = 12  # whole numbers, each of which is tried


def representative(given: Mapping[str, Any], share: float, is_grid: bool) -> Any:
    """The value at `share` of its way: the midpoint (for `log` of the exponents) and first category, or as it says.

    Of a grid it is one that the grid takes. Raises what comes of a range that cannot be read.
    """
    kind = given["type"]
    if kind == "const":
        return given["val"]
    if kind == "categorical":
        return given["vals"][0 if share == MIDDLE else round(share * (len(given["vals"]) - 1))]
    if is_grid and _count(given):
        counted, _ = values_of(given, is_grid)
        return counted[round(share * (len(counted) - 1))]
    if kind == "int":
        first, last = int(given["minval"]), int(given["maxval"])
        return first + int(share * (last - first))
    low, high = float(given["minval"]), float(given["maxval"])
    if kind == "double":
        return low + share * (high - low)
    if kind == "log":
        return _base(given) ** (low + share * (high - low))
    raise ValueError("unknown type")


def values_of(given: Mapping[str, Any], is_grid: bool) -> tuple[tuple[Any, ...], bool]:
    """The values of a range and whether it has no others: a grid's are counted, else they are its ends."""
    kind = given["type"]
    if kind in ("const", "categorical"):
        return distinct(given["vals"] if kind == "categorical" else [given["val"]]), True
    low, high = float(given["minval"]), float(given["maxval"])
    count = _count(given) if is_grid else 0
    places = _spread(low, high, min(count, int(high - low) + 1) if kind == "int" else count)
    if kind == "int":
        whole = places or (range(int(low), int(high) + 1) if high - low < _FEW else [low, (low + high) // 2, high])
        return distinct([_rounded(place) for place in whole]), bool(places) or high - low < _FEW
    numbers = places or [low, high]
    return distinct([_base(given) ** n for n in numbers] if kind == "log" else numbers), bool(places)


def _count(given: Mapping[str, Any]) -> int:
    """0 where a grid lacks it, which the cluster refuses."""
    count = given.get("count")
    return count if isinstance(count, int) and count > 0 else 0


def _spread(low: float, high: float, count: int) -> list[float]:
    """As Determined's grid takes them: one value is the middle."""
    return [(low + high) / 2] if count == 1 else [low + i * (high - low) / max(1, count - 1) for i in range(count)]


def _rounded(value: float) -> int:
    """Halves away from zero, as in Go."""
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def _base(given: Mapping[str, Any]) -> float:
    return float(given.get("base", 10))


def drawn_from(given: Mapping[str, Any], dice: random.Random) -> Any:
    match given["type"]:
        case "const":
            return given["val"]
        case "categorical":
            return dice.choice(given["vals"])
        case "int":
            return dice.randint(int(given["minval"]), int(given["maxval"]))
        case "log":
            return _base(given) ** dice.uniform(float(given["minval"]), float(given["maxval"]))
    return dice.uniform(float(given["minval"]), float(given["maxval"]))


def distinct(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple({json.dumps(value, sort_keys=True, default=str): value for value in values}.values())
