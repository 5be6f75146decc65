"""The grid files of simtony's runner: command templates, values to fill in, and one grid a further document."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import yaml

from mlcheck.core.finding import Location
from mlcheck.experiment.document import Entry, is_null, located, merged_entries
from mlcheck.experiment.launch import Launch, launched, misspelt_file

_PLACE = re.compile(r"\{([\w-]+?)\}|\[([\w-]+?)\]")
_KEYS = {"template", "default", "alias", "resource"}
# What the runner fills in itself, and what a grid says beside its parameters.
GIVEN = {"_name", "_output", "_time"}
ABOUT = {"_title", "_cmd"}
_MOST_RUNS = 20_000


@dataclass(frozen=True)
class Command:
    """One command of the template: its parameters written as `{name}` (a value) and `[name]` (a flag)."""

    entry: Entry
    places: frozenset[str]
    flags: frozenset[str]

    @property
    def asked(self) -> frozenset[str]:
        return self.places | self.flags

    @property
    def started(self) -> Launch:
        """The script of the command; none where it is looked for from another folder."""
        text = self.entry.value.value
        return launched(text) if "&&" not in text and ";" not in text else Launch()


@dataclass(frozen=True)
class Sweep:
    """One further document: its parameters with their values, and the commands that it names."""

    node: yaml.Node
    parameters: dict[str, Entry]
    chosen: tuple[yaml.ScalarNode, ...]

    def values(self, name: str) -> list[yaml.Node]:
        """What a parameter goes through: a single value is a list of one."""
        node = self.parameters[name].value
        return list(node.value) if isinstance(node, yaml.SequenceNode) else [node]

    def runs(self) -> Iterator[dict[str, yaml.Node]]:
        """Every combination; of a very large grid the first ones."""
        names = list(self.parameters)
        combined = itertools.product(*(self.values(name) for name in names))
        return (dict(zip(names, values)) for values in itertools.islice(combined, _MOST_RUNS))


class Grid:
    """Raises yaml.YAMLError for what is no YAML, ValueError for what is no such file.

    `certain` where no other program may have one like it; only then a key may be `misspelt`.
    """

    kind: ClassVar[str] = "grid"

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        documents = list(yaml.compose_all(text, yaml.FullLoader))
        self.head = merged_entries(documents[0]) if documents else []
        self.misspelt = _misspelt([entry.key for entry in self.head])
        head = {self.misspelt.get(entry.key, entry.key): entry.value for entry in self.head}
        template = merged_entries(head["template"]) if "template" in head else []
        if not template or not all(isinstance(entry.value, yaml.ScalarNode) for entry in template):
            raise ValueError("no runner's template")
        if not head.keys() <= _KEYS or not any(_PLACE.search(entry.value.value) for entry in template):
            raise ValueError("another program's template")
        self.commands = {entry.key: _command(entry) for entry in template}
        self.certain = len(documents) > 1 and any("_output" in one.places for one in self.commands.values())
        if self.misspelt and not self.certain:
            raise ValueError("another program's template")
        self.default = {entry.key: entry for entry in merged_entries(head["default"])} if "default" in head else {}
        self.alias = {entry.key: entry for entry in merged_entries(head["alias"])} if "alias" in head else {}
        self.resource = head.get("resource")
        self.sweeps = [_sweep(node) for node in documents[1:] if isinstance(node, yaml.MappingNode)]

    def beside(self) -> list[str]:
        return []

    def at(self, node: yaml.Node) -> Location:
        return located(self.path, node)

    def chosen(self, sweep: Sweep) -> list[Command]:
        """The commands that a grid runs: those it names, or all."""
        named = {node.value for node in sweep.chosen}
        return [command for name, command in self.commands.items() if not named or name in named]

    def file_nearby(self, command: Command) -> tuple[str, str] | None:
        """The script of a command, where there is none of that name, and the file beside the grid that may be meant."""
        return misspelt_file(launched(command.entry.value.value).entry, self.path)

    def filled(self, name: str) -> set[str]:
        """The parameters that a value of `name` sets: itself, or those of an alias."""
        if name not in self.alias:
            return {name}
        cases = merged_entries(self.alias[name].value)
        return {entry.key for case in cases for entry in merged_entries(case.value)}

    def given_to(self, command: Command) -> Iterator[tuple[str, yaml.Node]]:
        """The parameters of the grids that run a command, with each value; of those that an alias sets, none."""
        for sweep in self.sweeps:
            if command in self.chosen(sweep):
                names = sweep.parameters.keys() - self.alias.keys()
                yield from ((name, node) for name in names for node in sweep.values(name))
                kept = self.default.keys() - set[str]().union(*map(self.filled, sweep.parameters))
                yield from ((name, self.default[name].value) for name in kept)

    def set_by(self, sweep: Sweep) -> set[str]:
        return set().union(*(self.filled(name) for name in sweep.parameters)) | self.default.keys() | GIVEN


def _misspelt(keys: list[str]) -> dict[str, str]:
    """Keys that the runner does not know, each with the nearest that it knows and that is not written."""
    near = {
        key: difflib.get_close_matches(key, _KEYS - set(keys), n=1, cutoff=0.75) for key in keys if key not in _KEYS
    }
    return {key: found[0] for key, found in near.items() if found}


def _command(entry: Entry) -> Command:
    found = _PLACE.findall(entry.value.value)
    return Command(entry, frozenset(p for p, _ in found if p), frozenset(flag for _, flag in found if flag))


def value_of(node: yaml.Node) -> Any:
    """As the runner reads it, by the rules of YAML 1.1."""
    return yaml.FullLoader("").construct_object(node, deep=True)


def _sweep(node: yaml.MappingNode) -> Sweep:
    entries = {entry.key: entry for entry in merged_entries(node)}
    named = entries["_cmd"].value if "_cmd" in entries else None
    names = named.value if isinstance(named, yaml.SequenceNode) else [named] if named is not None else []
    chosen = tuple(name for name in names if isinstance(name, yaml.ScalarNode) and not is_null(name))
    return Sweep(node, {key: entry for key, entry in entries.items() if key not in ABOUT}, chosen)
