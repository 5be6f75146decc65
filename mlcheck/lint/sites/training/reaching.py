"""Which functions of a project touch gradients, themselves or through those that they call by name."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context
from mlcheck.lint.sites.training.plain_optimizers import only_steps
from mlcheck.lint.words import numbers_of_lines

CLEARS = pattern(
    r"zero_grad|(?<!autograd)\.grad\b(?!(?:\.data)?\.(?:div_|norm|abs|mean|max)\(|\s+is\b)|_foreach_zero_|set_to_none"
    r"|(?:grad|step|backward)\w*_hook\(|register_hook\("
)
COMPUTES = pattern(r"backward|(?<!autograd)\.grad\b|closure")
STEPS = pattern(r"\.step\w*\(|\.grad\b(?!\s*=\s*None)|(?:grad|register)\w*_hook\(")
_UNNAMED = frozenset(["forward", "__call__", "__enter__", "__exit__", "__iter__", "__next__", "__getitem__"])
"""Functions that run without their names being called."""


class Reaching(NamedTuple):
    """The names of the methods and classes, and of the functions, by which the text that was looked for is reached."""

    methods: frozenset[str]
    functions: frozenset[str]

    @property
    def unnamed(self) -> bool:
        """Whether it may be reached without a call that says so."""
        return not _UNNAMED.isdisjoint(self.methods)

    def by(self, file: File, context: Context, nodes: Iterable[ast.AST]) -> bool:
        """Whether one of these calls may mean one of those functions; a library's own is known for what it is."""
        for node in nodes:
            if not isinstance(node, ast.Call):
                continue
            name = last_name(node.func)
            if name in self.methods and not isinstance(file.resolve(node.func, context), str):
                return True
            if name in self.functions and _may_be_function(file, node, context):
                return True
        return False


def clearing(sites: Sites) -> Reaching:
    """What may clear gradients; `sites.once(clearing)`."""
    return _reached(sites, CLEARS, ("zero_grad", ".grad", "_foreach_zero_", "set_to_none", "_hook("), only_steps)


def computing(sites: Sites) -> Reaching:
    """What may compute gradients; `sites.once(computing)`."""
    return _reached(sites, COMPUTES, ("backward", ".grad", "closure"))


def stepping(sites: Sites) -> Reaching:
    """What may step an optimizer or do its work; `sites.once(stepping)`."""
    return _reached(sites, STEPS, (".step", ".grad", "_hook("))


def _may_be_function(file: File, call: ast.Call, context: Context) -> bool:
    """Whether this means a function, of whatever name: not where it is the method of some object."""
    named = file.resolve(call.func, context)
    return isinstance(named, Function) if isinstance(call.func, ast.Attribute) else not isinstance(named, str)


def _reached(
    sites: Sites,
    words: re.Pattern[str],
    named: Sequence[str],
    leaves_out: Callable[[Class], bool] | None = None,
) -> Reaching:
    """By what the text is reached that matches the pattern; nothing matches in files without any of those words."""
    todo: list[Function] = []
    for file in sites.mentioning(named):
        lines = numbers_of_lines(words, file.text, named)
        for function in file.functions if lines else ():
            place = bisect_left(lines, function.node.lineno)
            if place < len(lines) and lines[place] <= (function.node.end_lineno or 0):
                if leaves_out is None or function.cls is None or not leaves_out(function.cls):
                    todo.append(function)
    callers = sites.once(_callers) if todo else {}
    methods, functions = set[str](), set[str]()
    while todo:
        function = todo.pop()
        name, found = _name(function), methods if function.cls is not None else functions
        if name not in found:
            found.add(name)
            for call in callers.get(name, ()):
                around = call.function
                if around is not None and (function.cls or _may_be_function(call.file, call.node, call.context)):
                    todo.append(around)
    return Reaching(frozenset(methods), frozenset(functions))


def _callers(sites: Sites) -> dict[str, list[Call]]:
    """By what is called, the calls within functions."""
    found: dict[str, list[Call]] = {}
    for file in sites.files.values():
        for name, calls in file.walk.calls.items():
            found.setdefault(name, []).extend(Call(file, call, context) for call, context in calls)
    return found


def _name(function: Function) -> str:
    """How it is called: a constructor by its class."""
    if function.name in ("__init__", "__new__") and function.cls is not None:
        return function.cls.name
    return function.name
