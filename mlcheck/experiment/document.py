"""An experiment config as it is written: keys and values with their places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from mlcheck.core.finding import Location
from mlcheck.yaml12 import CoreLoader

_MERGE = "tag:yaml.org,2002:merge"
_MOST_NODES = 100_000


@dataclass(frozen=True)
class Entry:
    """One `key: value` of a mapping."""

    key: str
    key_node: yaml.ScalarNode
    value: yaml.Node


def own_entries(node: yaml.Node) -> list[Entry]:
    """What a mapping itself holds, in order, merge keys (`<<`) left out; nothing for another node."""
    if not isinstance(node, yaml.MappingNode):
        return []
    pairs = [(key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)]
    return [Entry(key.value, key, value) for key, value in pairs if key.tag != _MERGE]


def merged_entries(node: yaml.Node) -> list[Entry]:
    """What a mapping holds with what it merges, its own last."""
    merged = [value for key, value in node.value if key.tag == _MERGE] if isinstance(node, yaml.MappingNode) else []
    sources = [part for value in merged for part in (value.value if isinstance(value, yaml.SequenceNode) else [value])]
    return [entry for source in sources for entry in merged_entries(source)] + own_entries(node)


def _written_out(root: yaml.Node) -> float:
    """How many nodes a document has with every alias written out; endless for one that holds itself."""
    sizes: dict[int, float] = {}

    def size(node: yaml.Node) -> float:
        if id(node) not in sizes:
            sizes[id(node)] = float("inf")  # as long as it is not known, so for what refers to itself
            parts = node.value if isinstance(node, yaml.SequenceNode) else ()
            if isinstance(node, yaml.MappingNode):
                parts = [part for pair in node.value for part in pair]
            sizes[id(node)] = 1 + sum(size(part) for part in parts)
        return sizes[id(node)]

    return size(root)


def located(path: str, node: yaml.Node) -> Location:
    start, end = node.start_mark, node.end_mark
    return Location(path, start.line + 1, start.column + 1, end.line + 1, end.column + 1)


def is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


class Document:
    """The mapping a YAML file holds. Raises yaml.YAMLError for what is no YAML, ValueError for another form."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.lines = text.splitlines()
        root = yaml.compose(text, CoreLoader)
        if not isinstance(root, yaml.MappingNode):
            raise ValueError("an experiment config is a mapping")  # noqa: TRY004 - what is wrong is the file's content
        if _written_out(root) > _MOST_NODES:
            raise ValueError("it is too large, or holds itself")
        self.root = root

    def entries(self, node: yaml.Node | None = None) -> list[Entry]:
        """What a mapping holds, in order, merge keys (`<<`) left out; nothing for another node."""
        return own_entries(self.root if node is None else node)

    def find(self, *keys: str) -> Entry | None:
        """The last entry of the name, as YAML readers have it, along a path of keys."""
        node: yaml.Node | None = self.root
        found = None
        for key in keys:
            found = next((entry for entry in reversed(self.entries(node)) if entry.key == key), None)
            if found is None:
                return None
            node = found.value
        return found

    def text(self, *keys: str) -> str:
        """A scalar as it is written, empty where there is none."""
        entry = self.find(*keys)
        return entry.value.value if entry and isinstance(entry.value, yaml.ScalarNode) else ""

    def merges(self, node: yaml.Node) -> bool:
        """Whether a mapping takes entries from elsewhere (`<<: *defaults`)."""
        return isinstance(node, yaml.MappingNode) and any(key.tag == _MERGE for key, _ in node.value)

    def at(self, node: yaml.Node) -> Location:
        return located(self.path, node)

    def mappings(self) -> Iterator[yaml.MappingNode]:
        """Every mapping of the document, each once, whatever anchors it is behind."""
        seen: set[int] = set()
        waiting: list[yaml.Node] = [self.root]
        while waiting:
            node = waiting.pop(0)
            if id(node) in seen:
                continue
            seen.add(id(node))
            if isinstance(node, yaml.MappingNode):
                yield node
                waiting += [part for pair in node.value for part in pair]
            elif isinstance(node, yaml.SequenceNode):
                waiting += node.value
