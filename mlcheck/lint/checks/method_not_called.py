"""method-not-called: a method of the training loop is named, and the parentheses are missing."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts

_METHODS = ("zero_grad", "backward", "step", "eval", "train", "detach_", "update")
_ALONE = re.compile(rf"^\s*[\w.\[\]'\"()]+\.(?:{'|'.join(_METHODS)})\s*(?:#.*|;.*)?$", re.MULTILINE)


def check(facts: Facts) -> Iterator[Finding]:
    for file in facts.sites.mentioning([f".{name}" for name in _METHODS], tests=True):
        if "torch" not in file.text or not _ALONE.search(file.text):
            continue
        for node in ast.walk(file.module.source.tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Attribute) and node.value.attr in _METHODS:
                yield Finding(
                    f"`{ast.unparse(node.value)}` is named and not called: this line does nothing",
                    file.place(node.value, file.walk.module).location,
                    help=f"write `{ast.unparse(node.value)}()`",
                )
