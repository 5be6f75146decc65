"""Which functions of a project touch gradients, themselves or through those that they call by name."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Class, Function
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context
from mlcheck.lint.sites.training.plain_optimizers import only_steps

CLEARS = pattern(
    r"zero_grad|\.grad\b|autograd\.(?:grad|backward)|_foreach_zero_|set_to_none|(?:grad|step|register)\w*_hook\("
)
COMPUTES = pattern(r"backward|(?<!autograd)\.grad\b|closure")
STEPS = pattern(r"\.step\w*\(|\.grad\b(?!\s*=\s*None)|(?:grad|register)\w*_hook\(")
_UNNAMED = frozenset(["forward", "__call__", "__enter__", "__exit__", "__iter__", "__next__", "__getitem__"])
"""Functions that run without their names being called."""


class Reaching(NamedTuple):
    """The names of the functions and classes by which the text that was looked for is reached."""

    names: frozenset[str]

    @property
    def unnamed(self) -> bool:
        """Whether it may be reached without a call that says so."""
        return not _UNNAMED.isdisjoint(self.names)

    def by(self, file: File, context: Context, nodes: Iterable[ast.AST]) -> bool:
        """Whether one of these calls may mean one of those functions; a library's own is known for what it is."""
        for node in nodes:
            if isinstance(node, ast.Call) and last_name(node.func) in self.names:
                if not isinstance(file.resolve(node.func, context), str):
                    return True
        return False


def clearing(sites: Sites) -> Reaching:
    """What may clear gradients; `sites.once(clearing)`."""
    return Reaching(_reached(sites, CLEARS, only_steps))


def computing(sites: Sites) -> Reaching:
    """What may compute gradients; `sites.once(computing)`."""
    return Reaching(_reached(sites, COMPUTES))


def stepping(sites: Sites) -> Reaching:
    """What may step an optimizer or do its work; `sites.once(stepping)`."""
    return Reaching(_reached(sites, STEPS))


def _reached(sites: Sites, words: re.Pattern[str], leaves_out: Callable[[Class], bool] | None = None) -> frozenset[str]:
    todo: list[str] = []
    for file in sites.files.values():
        if words.search(file.text):
            for function in file.functions:
                left_out = leaves_out is not None and function.cls is not None and leaves_out(function.cls)
                if not left_out and words.search(function.text):
                    todo += _names(function)
    callers = sites.once(_callers) if todo else {}
    found: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += callers.get(name, ())
    return frozenset(found)


def _callers(sites: Sites) -> dict[str, set[str]]:
    """By what is called, the functions that call it, each as it is called itself."""
    found: dict[str, set[str]] = {}
    for file in sites.files.values():
        for name, calls in file.walk.calls.items():
            for _, context in calls:
                function = file.function_around(context)
                if function is not None:
                    found.setdefault(name, set()).update(_names(function))
    return found


def _names(function: Function) -> list[str]:
    """How it is called: a constructor by its class."""
    if function.name in ("__init__", "__new__") and function.cls is not None:
        return [function.cls.name]
    return [function.name]
