"""Finds options and values that a grid gives a script and that the script's own argparse refuses."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping

import yaml

from mlcheck.core.finding import Finding
from mlcheck.experiment.command_line import Option, options_of
from mlcheck.experiment.grid import Command, Grid, value_of

LOOKS_AT = "grid"


def check(grid: Grid) -> Iterator[Finding]:
    for command in grid.commands.values():
        script, words = command.started
        options = options_of(os.path.join(os.path.dirname(grid.path), script)) if script else None
        if options is None:
            continue
        given = dict(_given(words))
        for name in given:
            if not any(known.startswith(name) for known in options):
                yield _unknown(grid, command, script, name, options)
        for parameter, node in dict.fromkeys(grid.given_to(command)):
            for name, filled in given.items():
                if filled == parameter and name in options:
                    yield from _refused(grid, script, name, options[name], node)


def _given(words: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The long options among the words of a command, each with the parameter that is its whole value, if one is."""
    for word, following in zip(words, (*words[1:], "")):
        if word == "--":
            return
        if word.startswith("[") and word.endswith("]"):
            yield f"--{word[1:-1]}", word[1:-1]
        elif word.startswith("--"):
            name, same, value = word.partition("=")
            value = value if same else following
            if not set(name) & set("{}[]$*"):
                yield name, value[1:-1] if value[:1] == "{" and value.find("}") == len(value) - 1 else ""


def _unknown(grid: Grid, command: Command, script: str, name: str, options: Mapping[str, Option]) -> Finding:
    near = difflib.get_close_matches(name, options, n=1)
    hint = f"; did you mean `{near[0]}`?" if near else ""
    told = f"the command `{command.entry.key}` gives `{name}`, which {script} does not take{hint}"
    return Finding(
        told, grid.at(command.entry.key_node), help="argparse ends the program at an option it does not know"
    )


def _refused(grid: Grid, script: str, name: str, option: Option, node: yaml.Node) -> Iterator[Finding]:
    value = value_of(node)
    if isinstance(value, str | int | float) and not isinstance(value, bool) and (why := option.refuses(str(value))):
        told = f"{script} ends at `{name}`: `{value}` {why}"
        separated = isinstance(value, str) and len(value.replace(",", " ").split()) > 1
        help_ = "write a list, `[a, b]`, to go through several values" if separated else f"give `{name}` what it takes"
        yield Finding(told, grid.at(node), help=help_)
