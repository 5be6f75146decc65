"""What other files can notice of a file: all that a run has to know before it asks its cache."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from mlcheck.lint.source import Source

_CALLED = re.compile(r"\w+(?=\()")
_DEFINED = re.compile(r"\bdef (\w+)")


class Import(NamedTuple):
    """One import statement: `level` dots, the module, and the names taken from it (none: the module itself)."""

    level: int
    module: str
    names: tuple[str, ...]


class Outline(NamedTuple):
    """What other files can notice of a file: what it imports, the names it defines and those it calls."""

    imports: tuple[Import, ...]
    defined: frozenset[str]
    called: frozenset[str]


NOTHING = Outline((), frozenset(), frozenset())


def outline(source: Source) -> Outline:
    """Names are judged by the text, as the analysis does: a method may be called on anything."""
    calls, defined = Counter(_CALLED.findall(source.text)), Counter(_DEFINED.findall(source.text))
    called = frozenset(name for name, number in calls.items() if number > defined[name])
    return Outline(tuple(dict.fromkeys(_imports(source.tree))), frozenset(defined), called)


def _imports(tree: ast.Module) -> Iterator[Import]:
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from (Import(0, alias.name, ()) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield Import(node.level, node.module or "", tuple(alias.name for alias in node.names))
        else:
            for part in ("body", "orelse", "finalbody", "handlers", "cases"):
                inner = getattr(node, part, ())
                if isinstance(inner, list):
                    waiting += inner


class Member(NamedTuple):
    """A file as the grouping sees it."""

    path: str
    module: str
    outline: Outline


class Group(NamedTuple):
    """Positions of the files that belong together, and which of their functions are called from elsewhere."""

    members: tuple[int, ...]
    called_elsewhere: frozenset[str]
