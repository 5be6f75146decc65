"""Inputs of one split that are paired with the targets of another, as their names say."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import is_length
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.values import split_of_name


class MixedPair(NamedTuple):
    """The call that pairs them, and the names of the two."""

    call: Call
    first: str
    second: str


def mixed_pairs(sites: Sites) -> Iterator[MixedPair]:
    """`TensorDataset(test_images, train_labels)`."""
    for call in sites.calls("torch.utils.data.TensorDataset"):
        named = [list(_names(given)) for given in call.node.args]
        told = [names[0] for names in named if len({split_of_name(name) for name in names}) == 1]
        splits = {split_of_name(name) for name in told}
        if len(told) == len(named) > 1 and len(splits) == 2 and "train" in splits:
            other = next(name for name in told if split_of_name(name) != split_of_name(told[0]))
            yield MixedPair(call, told[0], other)


def _names(node: ast.AST) -> Iterator[str]:
    """The names in an expression that tell a split, but for those of its indices and lengths."""
    if isinstance(node, ast.Name | ast.Attribute):
        name = node.id if isinstance(node, ast.Name) else node.attr
        if split_of_name(name):
            yield name
        elif isinstance(node, ast.Attribute):
            yield from _names(node.value)
    elif isinstance(node, ast.Subscript):
        yield from _names(node.value)
    elif isinstance(node, ast.Call) and not is_length(node):
        for part in (node.func.value if isinstance(node.func, ast.Attribute) else None, *node.args):
            yield from _names(part) if part is not None else ()
