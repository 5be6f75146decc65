"""What a search may start: the combinations of a grid, or values and draws of what random and adaptive ones draw from.

https://docs.determined.ai/0.38.0/reference/training/experiment-config-reference.html#hyperparameters
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mlcheck.trial.config import MIDDLE, Hyperparameters, hyperparameters, read_config
from mlcheck.trial.trial import EntryOptions

DRAWS = 8
_FEW = 12  # whole numbers, each of which is tried

Combination = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Axis:
    """A hyperparameter and its values; `whole` where it can take no others."""

    name: str
    values: tuple[Any, ...]
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Search:
    """The `products` of a grid are what it starts, one for each of its sweeps.

    With `is_grid` False there is one product, and what is started is drawn from it; `draws` are examples. `held` are
    names that the user gives a value, whatever the search says.
    """

    products: tuple[tuple[Axis, ...], ...]
    is_grid: bool
    draws: tuple[Combination, ...] = ()
    held: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether nothing is started that is not in the products."""
        return all(axis.whole for product in self.products for axis in product)


def search_of(options: EntryOptions) -> Search | None:
    """The search that a trial with these options is the beginning of; None where only one combination is planned."""
    if options.grid:
        return _of_runner(options.grid)
    config = read_config(options.config) if options.config else {}
    declared, searcher = config.get("hyperparameters"), config.get("searcher")
    is_grid = isinstance(searcher, Mapping) and searcher.get("name") == "grid"
    ranges = dict(_ranges(declared, "")) if isinstance(declared, Mapping) else {}
    held = tuple(name for name in ranges if name in options.hparams)
    open_ = {name: given for name, given in ranges.items() if name not in held}
    axes = [Axis(name, *_values(given, is_grid)) for name, given in open_.items()]
    axes = [axis for axis in axes if len(axis.values) > 1]
    if not axes:
        return None
    dice = random.Random(options.seed)  # noqa: S311 - no secret
    drawn = () if is_grid else tuple({axis.name: _drawn(open_[axis.name], dice) for axis in axes} for _ in range(DRAWS))
    return Search((tuple(axes),), is_grid, drawn, held)


def middle_of(search: Search, options: EntryOptions) -> Combination | None:
    """The combination that a trial is examined with; None where that is none of the search's names."""
    if options.grid or not options.config:
        return None
    values = hyperparameters(read_config(options.config), options.hparams, str(options.config), MIDDLE)
    return {axis.name: _at(values, axis.name) for axis in search.products[0]}


def started_with(options: EntryOptions, combination: Combination) -> EntryOptions:
    """What starts a program with these values."""
    if options.grid:
        return replace(options, arguments=tuple(arguments_of(options.grid, combination)))
    return replace(options, hparams={**options.hparams, **combination})


def begun(options: EntryOptions) -> EntryOptions:
    """Where a runner starts the script and the user gives no arguments, with those of its first task."""
    if not options.grid or options.arguments:
        return options
    first = next(sweep for sweep in options.grid["sweeps"])
    return started_with(options, {name: values[0] for name, values in first.items() if values})


def key_of(combination: Combination) -> str:
    """The same for the same values: `1`, `1.0` and `true` are three."""
    return json.dumps(combination, sort_keys=True, default=str)


def _of_runner(grid: Mapping[str, Any]) -> Search | None:
    products = tuple(
        tuple(Axis(name, _distinct(values)) for name, values in sweep.items()) for sweep in grid["sweeps"] if sweep
    )
    if sum(math.prod(len(axis.values) for axis in product) for product in products) < 2:
        return None
    return Search(products, is_grid=True)


def arguments_of(grid: Mapping[str, Any], combination: Combination) -> Iterator[str]:
    """The words of a runner's command: `{name}` is a value, `[name]` a flag with its value, or alone if it is true."""
    values = {**grid["default"], **grid["given"]}
    for name, value in combination.items():
        values |= grid["alias"][name].get(str(value), {}) if name in grid["alias"] else {name: value}
    for word in grid["words"]:
        name = word[1:-1]
        if word[:1] == "[" and word[-1:] == "]" and name in values:
            value = values[name]
            yield from () if value is False else (f"--{name}",)
            yield from () if isinstance(value, bool) else (str(value),)
        else:
            for name, value in values.items():
                word = word.replace(f"{{{name}}}", str(value))
            yield word


def _ranges(declared: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, value in declared.items():
        if isinstance(value, Mapping) and "type" in value:
            yield f"{path}{name}", value
        elif isinstance(value, Mapping):
            yield from _ranges(value, f"{path}{name}.")


def _at(values: Hyperparameters, route: str) -> Any:
    found: Any = values
    for name in route.split("."):
        found = found[name]
    return found


def _values(given: Mapping[str, Any], is_grid: bool) -> tuple[tuple[Any, ...], bool]:
    """The values of a range and whether it has no others: a grid's are counted, else they are its ends."""
    kind = given["type"]
    if kind in ("const", "categorical"):
        return _distinct(given["vals"] if kind == "categorical" else [given["val"]]), True
    low, high = float(given["minval"]), float(given["maxval"])
    count = _count(given) if is_grid else 0
    places = _spread(low, high, min(count, int(high - low) + 1) if kind == "int" else count)
    if kind == "int":
        whole = places or (range(int(low), int(high) + 1) if high - low < _FEW else [low, (low + high) // 2, high])
        return _distinct([_rounded(place) for place in whole]), bool(places) or high - low < _FEW
    numbers = places or [low, high]
    return _distinct([_base(given) ** n for n in numbers] if kind == "log" else numbers), bool(places)


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


def _drawn(given: Mapping[str, Any], dice: random.Random) -> Any:
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


def _distinct(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple({json.dumps(value, sort_keys=True, default=str): value for value in values}.values())
