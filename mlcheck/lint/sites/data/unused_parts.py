"""Data that an object splits in `setup`, and whose training part nothing reads."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.data.loaders import loaders
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.project import Sites


class Unused(NamedTuple):
    """The attributes that hold the data and its first part, the loader for training over all of it, and the split."""

    whole: str
    part: str
    loader: Call
    split: Call


def unused_parts(sites: Sites) -> Iterator[Unused]:
    """`train_dataloader` over `self.data`, of which `self.train` was split off, and is read nowhere."""
    for split in sites.calls("torch.utils.data.random_split"):
        whole = own_attribute(split.node.args[0], split.function) if split.node.args else ""
        part = _first(split) if whole else ""
        if not part or _is_read(sites, part):
            continue
        for loader in sites.once(loaders):
            call = loader.call
            if (
                loader.hook == "train"
                and call.cls is split.cls
                and own_attribute(loader.dataset, call.function) == whole
            ):
                yield Unused(whole, part, call, split)


def _first(split: Call) -> str:
    """`train` of `self.train, self.val = random_split(...)`."""
    for node in split.function.all(ast.Assign) if split.function is not None else ():
        target = node.targets[0]
        if node.value is split.node and isinstance(target, ast.Tuple):
            return own_attribute(target.elts[0], split.function)
    return ""


def _is_read(sites: Sites, attribute: str) -> bool:
    """Whether something asks any object for that attribute, or may by its name."""
    for file in sites.mentioning([attribute], tests=True):
        if f'"{attribute}"' in file.text or f"'{attribute}'" in file.text:
            return True
        nodes = (node for node in walk(file.module.source.tree) if isinstance(node, ast.Attribute))
        if any(node.attr == attribute and isinstance(node.ctx, ast.Load) for node in nodes):
            return True
    return False
