"""Generators that go over a loader again and again: `while True: for batch in loader: yield batch`."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.iteration import iteration_of
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.origins import callers
from mlcheck.lint.sites.project import Sites


def is_gone_over_endlessly(sites: Sites) -> bool:
    """Whether the program makes such a generator of a loader."""
    for file in sites.mentioning(["yield"]):
        for function in file.functions if "while" in file.text else ():
            if "yield" in function.text and _begins_again(function):
                if any("loader" in ast.unparse(call.node).lower() for call in callers(sites, function)):
                    return True
    return False


def _begins_again(function: Function) -> bool:
    given = {name for name in function.parameters if name != function.receiver}
    for loop in function.all(ast.While):
        endless = isinstance(loop.test, ast.Constant) and bool(loop.test.value)
        for inner in walk(loop) if endless else ():
            if isinstance(inner, ast.For) and any(isinstance(node, ast.Yield) for node in walk(inner)):
                over = iteration_of(inner).over
                if isinstance(over, ast.Name) and over.id in given:
                    return True
    return False
