"""Finds parameters that are set and that no command asks for: every value of them runs the same."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

import yaml

from mlcheck.core.finding import Finding
from mlcheck.experiment.grid import GIVEN, Grid

LOOKS_AT = "grid"


def check(grid: Grid) -> Iterator[Finding]:
    every = frozenset[str]().union(*(command.asked for command in grid.commands.values())) - GIVEN
    for name, entry in grid.default.items():
        if name not in every and name not in grid.alias:
            yield _orphan(grid, f"`{name}` has a default, and no command asks for it", name, every, entry.key_node)
    for sweep in grid.sweeps:
        if any(node.value not in grid.commands for node in sweep.chosen):
            continue
        asked = frozenset[str]().union(*(command.asked for command in grid.chosen(sweep)))
        for name, entry in sweep.parameters.items():
            filled, count = grid.filled(name), len(sweep.values(name))
            near = difflib.get_close_matches(name, every - sweep.parameters.keys(), n=1, cutoff=0.8)
            if filled & asked or (count == 1 and not near):
                continue  # a single value that no command takes is there to name the output
            told = f"no command that runs takes `{name}`"
            told += f": its {count} values run the same command {count} times" if count > 1 else ""
            yield _orphan(grid, told, name, every, entry.key_node)


def _orphan(grid: Grid, told: str, name: str, every: frozenset[str], node: yaml.Node) -> Finding:
    near = difflib.get_close_matches(name, every, n=1, cutoff=0.8)
    hint = f"; did you mean `{near[0]}`?" if near else ""
    return Finding(f"{told}{hint}", grid.at(node), help=f"write `{{{name}}}` or `[{name}]` in a command, or drop it")
