"""What a search may start: the combinations of a grid, or values and draws of what random and adaptive ones draw from.

https://docs.determined.ai/0.38.0/reference/training/experiment-config-reference.html#hyperparameters
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mlcheck.trial.config import Hyperparameters, hyperparameters, is_grid, read_config
from mlcheck.trial.ranges import distinct, drawn_from, values_of
from mlcheck.trial.trial import EntryOptions

DRAWS = 8

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

    With `is_grid` False there is one product, and what is started is drawn from it; `draws` are examples.
    """

    products: tuple[tuple[Axis, ...], ...]
    is_grid: bool
    draws: tuple[Combination, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether nothing is started that is not in the products."""
        return all(axis.whole for product in self.products for axis in product)


def search_of(options: EntryOptions) -> Search | None:
    """The search that a trial with these options is the beginning of; None where only one combination is planned."""
    if options.grid:
        return _of_runner(options.grid)
    config = read_config(options.config) if options.config else {}
    declared = config.get("hyperparameters")
    ranges = dict(_ranges(declared, "")) if isinstance(declared, Mapping) else {}
    counted = is_grid(config)
    axes = [Axis(name, *values_of(given, counted)) for name, given in ranges.items()]
    axes = [axis for axis in axes if len(axis.values) > 1]
    if not axes:
        return None
    dice = random.Random(options.seed)  # noqa: S311 - no secret
    draws = 0 if counted else DRAWS
    drawn = tuple({axis.name: drawn_from(ranges[axis.name], dice) for axis in axes} for _ in range(draws))
    return Search((tuple(axes),), counted, drawn)


def middle_of(search: Search, options: EntryOptions) -> Combination | None:
    """The combination that a trial is examined with; None where that is none of the search's names."""
    if options.grid or not options.config:
        return None
    values = hyperparameters(read_config(options.config), options.hparams, str(options.config))
    return {axis.name: _at(values, axis.name) for axis in search.products[0]}


def examined_with(options: EntryOptions) -> str:
    """The values that stand for the ranges of a config, in a sentence; empty where it has none."""
    search = search_of(options)
    middle = middle_of(search, options) if search else None
    chosen = ", ".join(f"{name}={value!r}" for name, value in (middle or {}).items())
    return (
        f"of the ranges in {options.config} it was started with {chosen}: --hp NAME=VALUE sets others" if chosen else ""
    )


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
        tuple(Axis(name, distinct(values)) for name, values in sweep.items()) for sweep in grid["sweeps"] if sweep
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
