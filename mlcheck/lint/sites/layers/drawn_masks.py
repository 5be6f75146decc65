"""Modules that draw a dropout mask by hand, and modules that follow modes of their own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.sites.guards import asks_mode, in_forward
from mlcheck.lint.sites.model import Call, Class
from mlcheck.lint.sites.project import Sites


def drops_by_hand(sites: Sites) -> Iterator[tuple[Class, Call]]:
    """A mask of `bernoulli_(1 - self.p)` divided by `1 - self.p` in a forward pass, whatever the mode."""
    for file in sites.mentioning(["bernoulli"]):
        for call in file.calls("bernoulli_", "bernoulli"):
            function = in_forward(call)
            cls = function.cls if function is not None else None
            if function is None or cls is None or switches_itself(cls):
                continue
            if "dropout" not in cls.name.lower() or any(asks_mode(base.node) for base in cls.line):
                continue
            kept = [ast.unparse(a) for a in call.node.args if isinstance(a, ast.BinOp) and isinstance(a.op, ast.Sub)]
            quotients = [node for node in function.all(ast.BinOp) if isinstance(node.op, ast.Div)]
            if any(ast.unparse(node.right) in kept for node in quotients):
                yield cls, call


def switches_itself(cls: Class) -> bool:
    """A module with a `train` or `eval` of its own."""
    return any(name in base.methods for base in cls.line for name in ("train", "eval"))
