"""Transforms that are assigned to a part of a data set, or to the whole behind it, once the parts are split."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.data.transforms import is_random, steps_of
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.origins import Origin, origins, sole
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import AttributeSet
from mlcheck.lint.values import split_of_name

_SPLITS = "torch.utils.data.random_split"
PARTS = (_SPLITS, "torch.utils.data.Subset")


class PartTransform(NamedTuple):
    """The name of the part, and where its transform is assigned."""

    part: str
    place: Place


def transforms_of_whole(sites: Sites) -> Iterator[PartTransform]:
    """`part.dataset.transform = ...`: the parts of `random_split` share one data set, so the last assignment counts."""
    for file in sites.mentioning([".dataset.transform"]):
        by_split: dict[int, list[tuple[str, AttributeSet]]] = {}
        for assigned in file.walk.attributes:
            found = _part(file, assigned)
            if found is not None:
                by_split.setdefault(id(found[1].node), []).append((found[0], assigned))
        for parts in by_split.values():
            name, last = parts[-1]
            if len({each for each, _ in parts}) > 1 or _is_wrong_alone(file, name, last):
                yield PartTransform(name, file.place(last.node, last.context))


def _part(file: File, assigned: AttributeSet) -> tuple[str, Origin] | None:
    """The name of the part, and the `random_split` it comes from, of `name.dataset.transform = ...`."""
    owner = assigned.target.value
    if assigned.target.attr != "transform" or not isinstance(owner, ast.Attribute) or owner.attr != "dataset":
        return None
    if not isinstance(owner.value, ast.Name):
        return None
    copied = any(
        other.target.attr == "dataset" and isinstance(other.target.value, ast.Name) for other in file.walk.attributes
    )
    found = origins(file, owner.value, assigned.context)
    if copied or len(found) != 1 or found[0].name != _SPLITS:
        return None
    return owner.value.id, found[0]


def _is_wrong_alone(file: File, name: str, assigned: AttributeSet) -> bool:
    """One assignment alone: random steps for all parts, or steps meant for the held-out part alone."""
    if split_of_name(name) in ("val", "test"):
        return True
    value = assigned.value
    steps = steps_of(Origin(file, value, assigned.context)) if value is not None else None
    return any(is_random(step) for step in steps or ())


def transforms_of_parts(sites: Sites) -> Iterator[PartTransform]:
    """`val.transform = ...` of a part of a data set: the part asks the whole for its samples, which has its own."""
    files = list(sites.mentioning([".transform = "]))
    if not files or any(_asks_others(file) for file in sites.mentioning([".transform"])):
        return
    for file in files:
        for assigned in file.walk.attributes:
            part = assigned.target.value
            made = sole(file, part, assigned.context) if assigned.target.attr == "transform" else None
            if made is not None and made.name in PARTS:
                yield PartTransform(ast.unparse(part), file.place(assigned.node, assigned.context))


def _asks_others(file: File) -> bool:
    """Whether something asks another object than its own for its transform: a wrapper may look at the part's."""
    for node in walk(file.module.source.tree):
        if isinstance(node, ast.Attribute) and node.attr == "transform" and isinstance(node.ctx, ast.Load):
            if not isinstance(node.value, ast.Name) or node.value.id != "self":
                return True
    return False
