"""Data that is drawn at random, its labels too: there is nothing in it to learn, and a program is tried out with it."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.origins import Origin

_DRAWN = ("randn", "rand", "randint", "zeros", "ones", "empty")
_LABELS = ("randint", "random_")
_FILLING = ("random_", "normal_", "uniform_", "to", "float", "long", "half", "cuda")


def is_noise(made: Origin) -> bool:
    """`TensorDataset(torch.randn(n, size), torch.randint(classes, (n,)))`: samples drawn, and labels drawn apart."""
    given = made.node.args if isinstance(made.node, ast.Call) else []
    names = [_drawn_by(source(made.file, each, made.context)[0]) for each in given]
    return len(names) > 1 and all(names) and names[-1] in _LABELS


def _drawn_by(node: ast.expr) -> str:
    """The name of the call that draws; "" for anything else."""
    found = ""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and last_name(node.func) in _FILLING:
        found = found or ("random_" if last_name(node.func) == "random_" else "")
        node = node.func.value
    name = last_name(node.func) if isinstance(node, ast.Call) else ""
    return (found or name) if name in _DRAWN else ""
