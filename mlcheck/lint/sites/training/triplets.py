"""Triplet losses that are given the negative where the positive belongs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.project import Sites

_FUNCTIONS = tuple(
    f"torch.nn.functional.{name}" for name in ("triplet_margin_loss", "triplet_margin_with_distance_loss")
)
_LAYERS = ("torch.nn.TripletMarginLoss", "torch.nn.TripletMarginWithDistanceLoss")
_POSITIVE = pattern(r"(?:^|_)(?:pos|positives?|same|p)(?:_|\d|$)")
_NEGATIVE = pattern(r"(?:^|_)(?:neg|negatives?|diff|different|n)(?:_|\d|$)")


def crossed_triplets(sites: Sites) -> Iterator[tuple[Call, ast.expr, ast.expr]]:
    """`criterion(anchor, negative, positive)`: the call, and what it gives for the positive and the negative."""
    for file in sites.mentioning(["TripletMargin", "triplet_margin"]):
        for calls in file.walk.calls.values():
            for node, context in calls:
                call = Call(file, node, context)
                positive, negative = call.argument("positive", 1), call.argument("negative", 2)
                if positive is None or negative is None:
                    continue
                if _told(call, positive) == "negative" and _told(call, negative) == "positive" and _is_triplet(call):
                    yield call, positive, negative


def _is_triplet(call: Call) -> bool:
    if call.file.called(call.node, call.context) in _FUNCTIONS:
        return True
    made = {each.name for each in origins(call.file, call.node.func, call.context)}
    return bool(made) and all(name.startswith(_LAYERS) for name in made)


def _told(call: Call, node: ast.expr) -> str:
    """Which of the two a name says that it is, or the name or the key of what it was computed from."""
    for _ in range(3):
        if told := _by_words(node):
            return told
        made = source(call.file, node, call.context)[0] if isinstance(node, ast.Name) else node
        if isinstance(made, ast.Call) and made.args:
            made = made.args[-1]
        if made is node:
            break
        node = made
    return ""


def _by_words(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        word = str(node.slice.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        word = node.value
    else:
        word = last_name(node)
    found = [kind for kind, words in (("positive", _POSITIVE), ("negative", _NEGATIVE)) if words.search(word.lower())]
    return found[0] if len(found) == 1 else ""
