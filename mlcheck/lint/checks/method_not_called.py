"""method-not-called: a method of the training loop is named, and the parentheses are missing."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts

_METHODS = ("zero_grad", "backward", "step", "eval", "train", "detach_", "update")


def check(facts: Facts) -> Iterator[Finding]:
    for file in facts.sites.mentioning([f".{name}" for name in _METHODS], tests=True):
        if "torch" not in file.text:
            continue
        for node, _ in file.walk.bare:
            if node.attr in _METHODS:
                yield Finding(
                    f"`{ast.unparse(node)}` is named and not called: this line does nothing",
                    file.place(node, file.walk.module).location,
                    help=f"write `{ast.unparse(node)}()`",
                )
