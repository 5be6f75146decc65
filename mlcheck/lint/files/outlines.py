"""What other files can notice of a file: all that a run has to know before it asks its cache."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.files.source import Source
from mlcheck.lint.nodes import dotted, package_said


class Import(NamedTuple):
    """One import statement: `level` dots, the module, and the names taken from it (none: the module itself)."""

    level: int
    module: str
    names: tuple[str, ...]


class Outline(NamedTuple):
    """What other files can notice of a file: what it imports, the names it defines and those it may call elsewhere.

    `called` are names with the last part of the module they are taken from, `train.evaluate`; the name alone where
    a module is imported by a string, and nothing tells which.
    """

    imports: tuple[Import, ...]
    defined: frozenset[str]
    called: frozenset[str]


ALL_BELOW = ("",)
"""In place of names: whatever files a package has."""
_IMPORTERS = ("import_module", "__import__", "run_path", "run_module", "exec", "spec_from_file_location")
_BY_STRING = pattern(rf"\b(?:{'|'.join(_IMPORTERS)})\(")
NOTHING = Outline((), frozenset(), frozenset())


def outline(source: Source) -> Outline:
    walk = source.walk
    defined = frozenset(each.node.name for each in walk.defined if not isinstance(each.node, ast.ClassDef))
    imports = dict.fromkeys([*_imports(walk.imports), *_by_name(source)])
    return Outline(tuple(imports), defined, frozenset(_called(source)))


def _by_name(source: Source) -> Iterator[Import]:
    """`import_module("models.resnet")`, and `import_module(f"models.{name}")`, which means any file there."""
    for call, _ in source.walk.calls.get("import_module", ()):
        match call.args:
            case [ast.Constant(value=str(name)), *_] if name and not name.startswith("."):
                yield Import(0, name, ())
            case [said, *_] if package := package_said(said):
                yield Import(0, package, ALL_BELOW)


def _called(source: Source) -> Iterator[str]:
    """The calls that may reach another file: by an imported name, on something imported, or through a star import."""
    walk = source.walk
    imported, stars = _imported(walk.imports), [(node.module or "").rpartition(".")[2] for node in walk.stars]
    text = source.text
    by_string = any(f"{name}(" in text for name in _IMPORTERS) and _BY_STRING.search(text) is not None
    for name, calls in walk.calls.items():
        if by_string:
            yield name
        for func in {dotted(call.func) for call, _ in calls}:
            root, _, rest = func.partition(".")
            for part, original in imported.get(root, ()):
                yield f"{part}.{original if original and not rest else name}"
                if rest:
                    yield f"{func.split('.')[-2]}.{name}"
        yield from (f"{part}.{name}" for part in stars)


def _imported(statements: Iterable[ast.Import | ast.ImportFrom]) -> dict[str, set[tuple[str, str]]]:
    """For each name that an import binds, the last part of its module, and what it is called there."""
    found: dict[str, set[tuple[str, str]]] = {}
    for node in statements:
        for alias in node.names:
            if isinstance(node, ast.Import):
                local = alias.asname or alias.name.partition(".")[0]
                found.setdefault(local, set()).add((alias.name.rpartition(".")[2], ""))
            else:
                part = (node.module or "").rpartition(".")[2]
                found.setdefault(alias.asname or alias.name, set()).update({(part, alias.name), (alias.name, "")})
    return found


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
