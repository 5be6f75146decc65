"""Dropout whose rate is 0 where nobody asks for another one."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.options import by_default

_LAYERS = ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout")
_FUNCTIONS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")


def drops_by_default(file: File) -> bool:
    """Whether dropout in a file may drop something, although nobody gives its program a rate."""
    if "dropout" not in file.text.lower():
        return False
    return any(not _is_nothing(call, rate) for call, rate in _rates(file))


def goes_by_mode(file: File) -> bool:
    """Whether `self.training` is read for more than a rate: `F.dropout(x, training=self.training)`."""
    if "self.training" not in file.text:
        return False
    told = [call.argument("training", 2) for call in file.calls(*_FUNCTIONS)]
    made = [file.value(rate, call.context)[0] for call, rate in _rates(file) if rate is not None]
    told += [each.test for each in made if isinstance(each, ast.IfExp)]
    return file.text.count("self.training") > sum(last_name(each) == "training" for each in told)


def _rates(file: File) -> list[tuple[Call, ast.expr | None]]:
    """What each layer and function that drops is given as its rate, and what a library's other layers get as theirs."""
    found = [(call, call.argument("p", 0)) for call in file.calls(*_LAYERS)]
    found += [(call, call.argument("p", 1)) for call in file.calls(*_FUNCTIONS)]
    for calls in file.walk.calls.values():
        for node, context in calls:
            given = [word.value for word in node.keywords if word.arg is not None and "dropout" in word.arg]
            if given and isinstance(file.resolve(node.func, context), str | None):
                found += [(Call(file, node, context), rate) for rate in given]
    return found


def _is_nothing(call: Call, rate: ast.expr | None) -> bool:
    return rate is not None and by_default(call.file, rate, call.context) in (0, None)
