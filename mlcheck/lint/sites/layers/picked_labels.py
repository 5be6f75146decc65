"""Losses written by hand: each sample's label is picked from probabilities that add up over the samples."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.nodes import before_methods, last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.first_dimension import is_over_first
from mlcheck.lint.sites.model import Call

_SOFTMAXES = ("softmax", "log_softmax")
_SHAPED = ("unsqueeze", "view", "reshape", "long", "to", "contiguous")
_LABELS = frozenset(["target", "targets", "label", "labels", "y", "gt", "y_true"])


def labels_picked_along_other(file: File) -> Iterator[tuple[Call, ast.Call]]:
    """`log_softmax(pred, 0).gather(1, target.unsqueeze(1))`, of scores and labels that a loss is given."""
    for pick in file.calls("gather"):
        function, index = pick.function, pick.argument("index", 1)
        if function is None or pick.owner is None or not isinstance(index, ast.expr):
            continue
        label = before_methods(index, _SHAPED)
        if pick.constant("dim", 0) not in (1, -1) or last_name(label).lower() not in _LABELS:
            continue
        made, context = source(file, pick.owner, pick.context)
        if not isinstance(made, ast.Call) or last_name(made.func) not in _SOFTMAXES:
            continue
        softmax = Call(file, made, context)
        others = [node for node in function.nodes if isinstance(node, ast.Call) and last_name(node.func) in _SOFTMAXES]
        names = {node.id for node in walk(made) if isinstance(node, ast.Name)}
        if len(others) == 1 and names & set(function.parameters) and is_over_first(softmax):
            yield softmax, pick.node
