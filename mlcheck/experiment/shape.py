"""Forms that a YAML node can have, and what is wrong with one that has not the form it should have."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import yaml

from mlcheck.experiment.document import Entry, is_null, merged_entries

NUMBER, WHOLE, TEXT, FLAG, SIZE = "a number", "a whole number", "a text", "true or false", "a size like `4G`"
_KINDS = {"int": {WHOLE, NUMBER, SIZE}, "float": {NUMBER}, "bool": {FLAG}, "str": {TEXT, SIZE}}
_FILLED_IN = re.compile(r"\{\{|\$\{|\{%")


@dataclass(frozen=True)
class Problem:
    """What is wrong at `node`, which `path` leads to (`searcher.max_length.epochs`)."""

    node: yaml.Node
    path: str
    message: str
    help: str


class Shape(Protocol):
    """`complete` also asks for what a cluster's defaults or a template could still add."""

    def problems(self, node: yaml.Node, path: str, complete: bool) -> Iterator[Problem]: ...


@dataclass(frozen=True)
class Anything:
    """Any value; of a mapping where `mapping` says so."""

    mapping: bool = False

    def problems(self, node: yaml.Node, path: str, complete: bool) -> Iterator[Problem]:  # noqa: ARG002
        if self.mapping and not isinstance(node, yaml.MappingNode):
            yield wrong_kind(node, path, "a mapping")


@dataclass(frozen=True)
class Scalar:
    """One value. `fits` is a pattern, and `must` says in words what it asks for."""

    kind: str
    least: float | None = None
    most: float | None = None
    above: float | None = None
    choices: tuple[str, ...] = ()
    fits: str = ""
    must: str = ""

    def problems(self, node: yaml.Node, path: str, complete: bool) -> Iterator[Problem]:  # noqa: ARG002
        if is_filled_in(node):
            return
        if not isinstance(node, yaml.ScalarNode) or self.kind not in kinds(node):
            yield wrong_kind(node, path, f"one of {listed(self.choices)}" if self.choices else self.kind)
        elif self.choices and node.value not in self.choices:
            near = difflib.get_close_matches(node.value, self.choices, n=1)
            hint = f"; did you mean `{near[0]}`?" if near else ""
            yield Problem(node, path, f"`{path}` is `{node.value}`{hint}", f"write one of {listed(self.choices)}")
        elif (self.fits and not re.search(self.fits, node.value)) or not self._in_range(node):
            must = self.must or self._range()
            yield Problem(node, path, f"`{path}` is {node.value}, and it {must}", f"`{path}` {must}")

    def _in_range(self, node: yaml.ScalarNode) -> bool:
        if self.kind not in {NUMBER, WHOLE}:
            return True
        value = number(node)
        return not (
            (self.least is not None and value < self.least)
            or (self.most is not None and value > self.most)
            or (self.above is not None and value <= self.above)
        )

    def _range(self) -> str:
        if self.above is not None:
            return f"must be more than {self.above:g}"
        if self.most is not None:
            return f"must be from {self.least:g} to {self.most:g}"
        return f"must be {self.least:g} or more"


@dataclass(frozen=True)
class Many:
    """A list of at least so many items of one form."""

    item: Shape
    least: int = 0

    def problems(self, node: yaml.Node, path: str, complete: bool) -> Iterator[Problem]:
        if not isinstance(node, yaml.SequenceNode):
            yield from () if is_filled_in(node) else (wrong_kind(node, path, "a list"),)
            return
        if len(node.value) < self.least:
            yield Problem(node, path, f"`{path}` is empty", "give it at least one value")
        for place, item in enumerate(node.value):
            yield from self.item.problems(item, f"{path}[{place}]", complete)


@dataclass(frozen=True)
class Named:
    """A mapping from names of the user's own to values of one form."""

    item: Shape

    def problems(self, node: yaml.Node, path: str, complete: bool) -> Iterator[Problem]:
        if not isinstance(node, yaml.MappingNode):
            yield from () if is_filled_in(node) else (wrong_kind(node, path, "a mapping"),)
            return
        for entry in merged_entries(node):
            if not is_null(entry.value):
                yield from self.item.problems(entry.value, joined(path, entry.key), complete)


Rule = Callable[[Mapping[str, yaml.Node], yaml.Node, str], Iterator[Problem]]


@dataclass(frozen=True)
class Fields:
    """A mapping with known keys. `needs` must be there, `wants` once the cluster's defaults have been added.

    `removed` are keys of earlier versions with what to do about them; `rules` look at several values at once.
    """

    known: Mapping[str, Shape]
    needs: tuple[str, ...] = ()
    wants: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    removed: Mapping[str, str] = field(default_factory=dict)
    others: bool = False

    def problems(self, node: yaml.Node, path: str, complete: bool) -> Iterator[Problem]:
        if not isinstance(node, yaml.MappingNode):
            yield from () if is_filled_in(node) else (wrong_kind(node, path, "a mapping"),)
            return
        entries = merged_entries(node)
        values = {entry.key: entry.value for entry in entries if not is_null(entry.value)}
        written = {entry.key: entry for entry in entries}.values()
        for entry in written:
            yield from self._of(entry, path, complete)
        asked = self.needs + (self.wants if complete else ())
        for name in asked:
            if name not in values and not (name in self.needs and name in {entry.key for entry in written}):
                where = f"`{path}`" if path else "the config"
                yield Problem(node, path, f"{where} has no `{name}`", f"add `{name}`, which is required here")
        for rule in self.rules:
            yield from rule(values, node, path)

    def _of(self, entry: Entry, path: str, complete: bool) -> Iterator[Problem]:
        here, shape = joined(path, entry.key), self.known.get(entry.key)
        if shape is not None:
            if not is_null(entry.value):
                yield from shape.problems(entry.value, here, complete)
            elif entry.key in self.needs and not isinstance(shape, Anything):
                yield Problem(entry.value, here, f"`{here}` is null", "give it a value: it is required here")
        elif entry.key in self.removed:
            if is_null(entry.value):
                return
            message = f"`{here}` is not read any more"
            yield Problem(entry.key_node, here, message, self.removed[entry.key])
        elif not self.others:
            near = difflib.get_close_matches(entry.key, self.known, n=1, cutoff=0.7)
            hint = f"; did you mean `{near[0]}`?" if near else ""
            place = f"`{path}`" if path else "an experiment config"
            known = f"`{near[0]}`" if near else f"one of {listed(tuple(self.known))}"
            message = f"`{entry.key}` is no key of {place}, which the cluster refuses{hint}"
            yield Problem(entry.key_node, here, message, f"write {known}, or take it out")


@dataclass(frozen=True)
class Kind:
    """A mapping whose other keys depend on the value of `key`; without it only `common` is known.

    `retired` are values of earlier versions, which are read and then refused.
    """

    key: str
    options: Mapping[str, Shape]
    common: Shape
    retired: tuple[str, ...] = ()

    def problems(self, node: yaml.Node, path: str, complete: bool) -> Iterator[Problem]:
        chosen = next((e for e in reversed(merged_entries(node)) if e.key == self.key), None)
        if not isinstance(node, yaml.MappingNode) or chosen is None or is_filled_in(chosen.value):
            yield from self.common.problems(node, path, complete)
            return
        value = chosen.value.value if isinstance(chosen.value, yaml.ScalarNode) else ""
        if value in self.options:
            yield from self.options[value].problems(node, path, complete)
            return
        current = tuple(name for name in self.options if name not in self.retired)
        near = difflib.get_close_matches(value, current, n=1)
        hint = f"; did you mean `{near[0]}`?" if near else ""
        here = joined(path, self.key)
        yield Problem(chosen.value, here, f"`{here}` is `{value}`{hint}", f"write one of {listed(current)}")


@dataclass(frozen=True)
class Either:
    """One of several forms, told apart by whether the node is a value, a list or a mapping."""

    value: Shape | None = None
    many: Shape | None = None
    mapping: Shape | None = None
    told: str = ""

    def problems(self, node: yaml.Node, path: str, complete: bool) -> Iterator[Problem]:
        shape = {yaml.ScalarNode: self.value, yaml.SequenceNode: self.many, yaml.MappingNode: self.mapping}[type(node)]
        if shape is not None:
            yield from shape.problems(node, path, complete)
        elif not is_filled_in(node):
            yield wrong_kind(node, path, self.told)


def wrong_kind(node: yaml.Node, path: str, wanted: str) -> Problem:
    name = f"`{path}`" if path else "an experiment config"
    return Problem(node, path, f"{name} must be {wanted}, not {shown(node)}", f"write {wanted}")


def kinds(node: yaml.ScalarNode) -> set[str]:
    """What a value may be taken for: a number without a fraction is a whole number, however it is written."""
    found = set(_KINDS.get(node.tag.rpartition(":")[2], ()))
    return found | {WHOLE} if NUMBER in found and number(node).is_integer() else found


def number(node: yaml.ScalarNode) -> float:
    """Infinite where it is too large for a float."""
    text = node.value.replace("_", "").lower()
    if text.lstrip("+-")[:2] in {"0x", "0o"}:
        try:
            return float(int(text, 0))
        except (OverflowError, ValueError):
            return math.inf
    return float(text.replace(".inf", "inf").replace(".nan", "nan"))


def is_filled_in(node: yaml.Node) -> bool:
    """Whether a value is a place for another program to write to (`{{ lr }}`, `${LR}`)."""
    return isinstance(node, yaml.ScalarNode) and bool(_FILLED_IN.search(node.value))


def shown(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        return "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"
    kind = node.tag.rpartition(":")[2]
    return "nothing" if kind == "null" else f"the text `{node.value}`" if kind == "str" else f"`{node.value}`"


def listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def joined(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
