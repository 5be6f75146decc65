"""The hyperparameters of a config as they are written: every value and range, groups within groups included."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from mlcheck.experiment.document import Document, merged_entries
from mlcheck.experiment.field_rules import text
from mlcheck.experiment.shape import NUMBER, WHOLE, is_filled_in, kinds, number

SEARCHED = ("int", "double", "log", "categorical")


@dataclass(frozen=True)
class Parameter:
    """`kind` is that of a range, empty for a value; `key` and `node` are where name and value are written."""

    path: str
    key: yaml.Node
    node: yaml.Node
    kind: str

    def choices(self) -> list[yaml.Node]:
        """The values it may take, as far as they are written out: itself, those of a `const` or `categorical`."""
        entries = {entry.key: entry.value for entry in merged_entries(self.node)}
        if self.kind == "categorical":
            listed = entries.get("vals")
            return list(listed.value) if isinstance(listed, yaml.SequenceNode) else []
        if self.kind == "const":
            return [entries["val"]] if "val" in entries else []
        return [] if self.kind else [self.node]

    def is_searched(self) -> bool:
        """Whether it can take more than one value."""
        return self.kind in SEARCHED and not (self.kind == "categorical" and len(self.choices()) == 1)


def parameters(document: Document) -> list[Parameter]:
    section = document.find("hyperparameters")
    return list(_within(section.value, "")) if section else []


def _within(group: yaml.Node, path: str) -> Iterator[Parameter]:
    for entry in merged_entries(group):
        here = f"{path}{entry.key}"
        inner = {item.key: item.value for item in merged_entries(entry.value)}
        if isinstance(entry.value, yaml.MappingNode) and "type" not in inner:
            yield from _within(entry.value, f"{here}.")
        else:
            yield Parameter(here, entry.key_node, entry.value, text(inner.get("type")))


def whole(node: yaml.Node | None) -> int | None:
    """A whole number that is written out."""
    if isinstance(node, yaml.ScalarNode) and not is_filled_in(node) and WHOLE in kinds(node):
        value = number(node)
        return int(value) if math.isfinite(value) else None
    return None


def written(node: yaml.Node | None) -> float | None:
    """A number that is written out."""
    if isinstance(node, yaml.ScalarNode) and not is_filled_in(node) and NUMBER in kinds(node):
        return number(node)
    return None
