"""Gradients that are clipped to nothing: a limit of zero, which elsewhere means that nothing is clipped."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites.model import OPEN, Call
from mlcheck.lint.sites.options import by_default
from mlcheck.lint.sites.origins import callers
from mlcheck.lint.sites.project import Sites

_LIMITS = {"clip_grad_norm_": "max_norm", "clip_grad_norm": "max_norm", "clip_grad_value_": "clip_value"}


def zero_limits(sites: Sites) -> Iterator[tuple[Call, ast.expr]]:
    """The calls with their limits. One that a test asks about first is only used where it is not zero."""
    for file in sites.mentioning(["clip_grad_"]):
        for call in file.calls(*_LIMITS):
            limit = call.argument(_LIMITS[last_name(call.node.func)], 1)
            zero = limit is not None and limit is not OPEN and by_default(file, limit, call.context)
            if limit is not None and isinstance(zero, int | float) and zero is not False and zero == 0:
                if not _is_asked(call, limit) and _trains(call):
                    yield call, limit


def _trains(call: Call) -> bool:
    """Whether an optimizer may step on these gradients, here or where the function is called."""
    above = callers(call.file.sites, call.function) if call.function is not None else ()
    return any(".step(" in file.text for file in (call.file, *(each.file for each in above)))


def _is_asked(call: Call, limit: ast.expr) -> bool:
    """Whether any test mentions what the limit is called: its name, or that of the option."""
    name = last_name(limit)
    tests = (test for file in call.file.sites.mentioning([name]) for test, _ in file.walk.tests) if name else ()
    return any(last_name(node) == name for test in tests for node in walk(test))
