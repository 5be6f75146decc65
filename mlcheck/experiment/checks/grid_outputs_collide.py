"""Finds combinations that are written to the same folder: the second is taken for done, and never runs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import yaml

from mlcheck.core.finding import Finding
from mlcheck.experiment.grid import Grid, Sweep, value_of

LOOKS_AT = "grid"
_LONGEST = 100


def check(grid: Grid) -> Iterator[Finding]:
    first: dict[str, tuple[dict[str, yaml.Node], Sweep]] = {}
    for sweep in grid.sweeps:
        told = False
        commands = {command.entry.key for command in grid.chosen(sweep)}
        for run in sweep.runs():
            name = _name(run)
            other, where = first.setdefault(name, (run, sweep))
            others = {command.entry.key for command in grid.chosen(where)}
            if told or other is run or not commands & others:
                continue
            change = next((key for key in run if _exact(run[key]) != _exact(other.get(key))), "")
            if not change:
                continue  # the same run written twice is run once
            told = True
            mine, theirs = run[change].value, other[change].value if change in other else ""
            yield Finding(
                f"`{change}` {theirs} and {mine} both go to the folder `{name}`: the second run counts as done",
                grid.at(run[change]),
                help="let the values differ in their first six digits, or in their last hundred letters",
            )


def _exact(node: yaml.Node | None) -> object:
    value = value_of(node) if node is not None else None
    return (type(value) is bool, value)


def _name(run: dict[str, yaml.Node]) -> str:
    """As the runner builds it: the parts of a name cut to two letters, numbers with six digits."""
    return "-".join(f"{_short(key)}_{_shown(value_of(node))}" for key, node in run.items())


def _short(name: str) -> str:
    parts = name.split("-")
    parts = parts if len(parts) > 1 else parts[0].split("_")
    cut = [part[:2].title() if len(part) > 2 else part for part in parts[:-1]]
    return "".join(cut) + parts[-1].title()


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "T" if value else "F"
    if isinstance(value, int | float):
        return f"{value:g}"
    if isinstance(value, str) and os.path.exists(value):
        return os.path.basename(value)[-_LONGEST:]
    return re.sub("/", "_", re.sub("^[/.]*", "", str(value)))[-_LONGEST:]
