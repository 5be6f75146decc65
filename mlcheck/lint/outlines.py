"""What other files can notice of a file: all that a run has to know before it asks its cache."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mlcheck.lint.source import Source


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
    """Names are told apart by nothing but their spelling: a method may be called on anything."""
    walk = source.walk
    defined = frozenset(each.node.name for each in walk.defined if not isinstance(each.node, ast.ClassDef))
    return Outline(tuple(dict.fromkeys(_imports(walk.imports))), defined, frozenset(walk.calls))


def _imports(statements: Iterable[ast.Import | ast.ImportFrom]) -> Iterator[Import]:
    for node in statements:
        if isinstance(node, ast.Import):
            yield from (Import(0, alias.name, ()) for alias in node.names)
        else:
            yield Import(node.level, node.module or "", tuple(alias.name for alias in node.names))


class Member(NamedTuple):
    """A file as the grouping sees it."""

    path: str
    module: str
    outline: Outline


class Group(NamedTuple):
    """Positions of the files that belong together, and which of their functions are called from elsewhere."""

    members: tuple[int, ...]
    called_elsewhere: frozenset[str]
