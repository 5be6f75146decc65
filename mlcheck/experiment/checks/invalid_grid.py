"""Finds what the runner refuses in a grid file before it starts anything."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from mlcheck.core.finding import Finding
from mlcheck.experiment.field_rules import text
from mlcheck.experiment.grid import Grid

LOOKS_AT = "grid"


def check(grid: Grid) -> Iterator[Finding]:
    for entry in grid.head:
        if entry.key in grid.misspelt:
            known = grid.misspelt[entry.key]
            told = f"the runner knows no `{entry.key}` and does not read it; did you mean `{known}`?"
            yield Finding(told, grid.at(entry.key_node), help=f"write `{known}`")
    if not grid.certain:
        return
    if grid.resource is None:
        told = "there is no `resource`, which the runner needs before it starts anything"
        yield Finding(told, grid.at(grid.head[0].key_node), help="name a device for each worker: `resource: [0, 1]`")
    elif not isinstance(grid.resource, yaml.SequenceNode):
        value = f"`{text(grid.resource)}`" if isinstance(grid.resource, yaml.ScalarNode) else "a mapping"
        told = f"`resource` is {value}, and the runner takes only a list: one entry for each worker"
        yield Finding(told, grid.at(grid.resource), help='write `[0, 1]` for two workers, `["0,1"]` for one with both')
