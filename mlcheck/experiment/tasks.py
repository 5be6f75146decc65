"""What a runner's grid starts, as plain data: the words of one command, and the values that fill them."""

from __future__ import annotations

from typing import Any

import yaml

from mlcheck.core.mistake import not_yaml
from mlcheck.experiment.document import Entry, merged_entries
from mlcheck.experiment.files import ENDINGS, may_be_grid, read
from mlcheck.experiment.grid import GIVEN, Command, Grid, Sweep, value_of

_OUTPUT = "rehearsed"  # the folder of a task, below the one that it writes to


def grid_of(path: str) -> Grid | None:
    """The grid in a file; None for an experiment's config. Raises Mistake for a grid that cannot be read."""
    data = read(path) if path.endswith(ENDINGS) else b""
    if not may_be_grid(data):
        return None
    try:
        return Grid(path, data.decode("utf-8-sig"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise not_yaml(path, error) from error
    except ValueError:
        return None


def tasks(grid: Grid, script: str = "") -> dict[str, Any] | None:
    """Of the first command that starts this script, or any; None where there is none.

    `alias` holds what each case of an alias sets, `given` what the runner itself fills in.
    """
    for command in grid.commands.values():
        entry, words = command.started
        sweeps = [sweep for sweep in grid.sweeps if command in grid.chosen(sweep)]
        if entry and sweeps and (not script or entry == script):
            asked = command.asked
            return {
                "script": entry,
                "words": list(words),
                "default": {name: _plain(one.value) for name, one in grid.default.items() if name in asked},
                "given": dict.fromkeys(sorted(GIVEN & asked), _OUTPUT),
                "alias": {name: _cases(entry) for name, entry in grid.alias.items()},
                "sweeps": [_values(grid, sweep, command) for sweep in sweeps],
            }
    return None


def _values(grid: Grid, sweep: Sweep, command: Command) -> dict[str, list[Any]]:
    """What the command makes use of: tasks that differ in nothing else start alike."""
    used = [name for name in sweep.parameters if grid.filled(name) & command.asked]
    return {name: [_plain(node) for node in sweep.values(name)] for name in used}


def _cases(alias: Entry) -> dict[str, dict[str, Any]]:
    return {
        case.key: {entry.key: _plain(entry.value) for entry in merged_entries(case.value)}
        for case in merged_entries(alias.value)
    }


def _plain(node: yaml.Node) -> str | int | float | bool | None:
    """As the runner writes it into a command."""
    value = value_of(node)
    return value if isinstance(value, str | int | float | bool | None) else str(value)
