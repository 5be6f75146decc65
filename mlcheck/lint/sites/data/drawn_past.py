"""A second split that is drawn from all of the data, past the part that the first one has set aside."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mlcheck.lint.nodes import is_name, reads_of, stores_of, walk
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.values import split_of_name

_SPLITS = ("sklearn.model_selection.train_test_split", "torch.utils.data.random_split")


class DrawnPast(NamedTuple):
    """Both splits, the data they are drawn from, what the first leaves for the second, and what it sets aside."""

    first: Call
    second: Call
    data: str
    unread: str
    held: str


def drawn_past(sites: Sites) -> Iterator[DrawnPast]:
    """`rest, val = train_test_split(ids)`, and `train, test = train_test_split(ids)`: nothing reads `rest`."""
    splits = [(call, names) for call in sites.calls(*_SPLITS) if (names := _parts(call))]
    for first, (rest, held) in splits:
        data = first.node.args[0]
        if not isinstance(data, ast.Name) or split_of_name(held) not in ("val", "test"):
            continue
        nodes = _nodes(first)
        for second, (learnt, other) in splits:
            if (
                second.file is not first.file
                or second.function is not first.function
                or len({rest, held, learnt, other}) < 4
            ):
                continue
            if second.node.lineno < first.node.lineno or not is_name(second.node.args[0], data.id) or second is first:
                continue
            between = [node for node in stores_of(nodes, data.id) if first.node.lineno <= node.lineno]
            together = not first.context.excludes(second.context) and not between
            if together and not reads_of(nodes, rest) and reads_of(nodes, held) and reads_of(nodes, learnt):
                yield DrawnPast(first, second, data.id, rest, held)


def _nodes(call: Call) -> Sequence[ast.AST]:
    return call.function.nodes if call.function is not None else walk(call.file.module.source.tree)


def _parts(call: Call) -> tuple[str, str] | None:
    """The names of the two parts of one list."""
    if not call.node.args or any(isinstance(arg, ast.Starred) for arg in call.node.args):
        return None
    for line in _nodes(call):
        if isinstance(line, ast.Assign) and line.value is call.node and isinstance(line.targets[0], ast.Tuple):
            parts = [part.id for part in line.targets[0].elts if isinstance(part, ast.Name)]
            return (parts[0], parts[1]) if len(parts) == 2 == len(line.targets[0].elts) else None
    return None
