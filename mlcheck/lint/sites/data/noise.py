"""Data that is drawn at random by a function named for that: a program is tried out with it, and learns nothing."""

from __future__ import annotations

import ast
import re

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.origins import Origin

_NAMED = pattern(r"random|dummy|fake|synthetic|noise", re.IGNORECASE)
_DRAWN = ("randn", "rand", "randint", "zeros", "ones", "empty")
_FILLING = ("random_", "normal_", "uniform_", "to", "float", "long", "half", "cuda")


def is_noise(made: Origin) -> bool:
    """`TensorDataset(torch.randn(n, size), torch.randint(classes, (n,)))`, in `def random_dataset(...)`."""
    given = made.node.args if isinstance(made.node, ast.Call) else []
    function = made.file.function_around(made.context)
    if function is None or not _NAMED.search(function.name) or not given:
        return False
    return all(_is_drawn(source(made.file, each, made.context)[0]) for each in given)


def _is_drawn(node: ast.expr) -> bool:
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and last_name(node.func) in _FILLING:
        node = node.func.value
    return isinstance(node, ast.Call) and last_name(node.func) in _DRAWN
