"""Finds commands that a grid names in `_cmd` and that the template does not have, and scripts that are not there."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.experiment.grid import Grid

LOOKS_AT = "grid"


def check(grid: Grid) -> Iterator[Finding]:
    for command in grid.commands.values():
        nearby = grid.file_nearby(command)
        if nearby is not None:
            yield Finding(
                f"the command `{command.entry.key}` starts `{nearby[0]}`, which is not beside this file; did you "
                f"mean `{nearby[1]}`?",
                grid.at(command.entry.key_node),
                help="name the file as it is written there",
            )
    for sweep in grid.sweeps:
        for node in sweep.chosen:
            if node.value not in grid.commands:
                near = difflib.get_close_matches(node.value, grid.commands, n=1)
                hint = f"; did you mean `{near[0]}`?" if near else ""
                listed = ", ".join(f"`{name}`" for name in grid.commands)
                yield Finding(
                    f"the template has no command `{node.value}`, so nothing is run for it{hint}",
                    grid.at(node),
                    help=f"name one of {listed}",
                )
