"""Finds values of a grid that YAML 1.1, which the runner reads, takes for something else than is written."""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml

from mlcheck.core.finding import Finding
from mlcheck.experiment.document import Entry, merged_entries
from mlcheck.experiment.grid import Grid, value_of

LOOKS_AT = "grid"
_PLAIN_FLAG = re.compile(r"true|false", re.IGNORECASE)


def check(grid: Grid) -> Iterator[Finding]:
    flags = frozenset[str]().union(*(command.flags for command in grid.commands.values()))
    places = frozenset[str]().union(*(command.places for command in grid.commands.values()))
    for name, node in _values(grid):
        value = value_of(node)
        if not isinstance(node, yaml.ScalarNode) or node.style is not None:
            continue
        if isinstance(value, bool) and name in places - flags:
            told = f"`{name}` is {value}, and `{{{name}}}` writes that word into the command"
            help_ = f"write `[{name}]` in the command, which gives the flag `--{name}` or nothing"
        elif isinstance(value, bool) and not _PLAIN_FLAG.fullmatch(node.value):
            told, help_ = f"`{name}`: `{node.value}` is read as {value}", "put it in quotes, or write true or false"
        elif isinstance(value, int) and (re.match(r"[-+]?0\d", node.value) or ":" in node.value):
            told, help_ = f"`{name}`: `{node.value}` is read as the number {value}", "put it in quotes"
        elif value is None or isinstance(value, list | dict) or not isinstance(value, str | int | float):
            told, help_ = (
                f"`{name}`: `{node.value}` is read as {value!r}, which no command can take",
                "put it in quotes",
            )
        else:
            continue
        yield Finding(told, grid.at(node), help=help_)


def _values(grid: Grid) -> Iterator[tuple[str, yaml.Node]]:
    """Every value that a command may be given, by the name of its parameter."""
    for sweep in grid.sweeps:
        for name in sweep.parameters.keys() - grid.alias.keys():
            yield from ((name, node) for node in sweep.values(name))
    cases: list[Entry] = [case for alias in grid.alias.values() for case in merged_entries(alias.value)]
    for entry in [*grid.default.values(), *(item for case in cases for item in merged_entries(case.value))]:
        yield entry.key, entry.value
