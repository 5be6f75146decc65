"""Finds parameters of a command that nothing fills in: the runner stops before the first task."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.experiment.document import merged_entries
from mlcheck.experiment.field_rules import text
from mlcheck.experiment.grid import Grid

LOOKS_AT = "grid"


def check(grid: Grid) -> Iterator[Finding]:
    for sweep in grid.sweeps:
        for name, entry in sweep.parameters.items():
            if not sweep.values(name):
                told = f"`{name}` goes through no value, so this grid runs nothing"
                yield Finding(told, grid.at(entry.key_node), help="give it at least one value, or take it out")
        filled = grid.set_by(sweep)
        for command in grid.chosen(sweep):
            for name in sorted(command.asked - filled - grid.alias.keys()):
                near = difflib.get_close_matches(name, filled, n=1)
                hint = f"; did you mean `{near[0]}`?" if near else ""
                yield Finding(
                    f"the command `{command.entry.key}` asks for `{name}`, which neither `default` nor the grid of "
                    f"line {grid.at(sweep.node).line} sets{hint}",
                    grid.at(command.entry.key_node),
                    help=f"give `{name}` a value under `default`",
                )
    yield from _in_templates(grid)
    yield from _aliases(grid)


def _in_templates(grid: Grid) -> Iterator[Finding]:
    for command in grid.commands.values():
        for name in sorted(command.asked & grid.alias.keys()):
            told = f"the command `{command.entry.key}` asks for `{name}`, which is an alias: it has no value of its own"
            yield Finding(told, grid.at(command.entry.key_node), help="ask for the parameters that the alias sets")
        for name in sorted(command.flags & command.places):
            told = f"the command `{command.entry.key}` asks for `{name}` as a value and as a flag"
            yield Finding(told, grid.at(command.entry.key_node), help=f"write `{{{name}}}` or `[{name}]`, not both")


def _aliases(grid: Grid) -> Iterator[Finding]:
    """Cases of one alias set the same parameters, and a grid names those that there are."""
    for name, entry in grid.alias.items():
        cases = {case.key: case for case in merged_entries(entry.value)}
        keys = [{item.key for item in merged_entries(case.value)} for case in cases.values()]
        for case, found in zip(list(cases.values())[1:], keys[1:]):
            if found != keys[0]:
                odd = ", ".join(f"`{one}`" for one in sorted(found ^ keys[0]))
                told = f"the case `{case.key}` of the alias `{name}` sets other parameters than the first: {odd}"
                yield Finding(told, grid.at(case.key_node), help="set the same parameters in every case")
        for sweep in grid.sweeps:
            for value in sweep.values(name) if name in sweep.parameters else ():
                if text(value) not in cases:
                    near = difflib.get_close_matches(text(value), cases, n=1)
                    hint = f"; did you mean `{near[0]}`?" if near else ""
                    listed = ", ".join(f"`{case}`" for case in cases)
                    told = f"the alias `{name}` has no case `{text(value)}`{hint}"
                    yield Finding(told, grid.at(value), help=f"name one of {listed}")
