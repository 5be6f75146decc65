"""Records of parts: what `parts.loader` holds, where `parts` is a named tuple, a dataclass or a plain namespace."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from mlcheck.lint.nodes import is_name
from mlcheck.lint.sites.model import Class, Function
from mlcheck.lint.sites.scopes import Context
from mlcheck.lint.sites.settings import Entry, entries

if TYPE_CHECKING:
    from mlcheck.lint.sites.file import File

_DEPTH = 3


def field(file: File, owner: ast.expr, context: Context, name: str, depth: int = _DEPTH) -> list[Entry]:
    """All that the text gives a field of a record; nothing where the record is made out of sight."""
    made, where = file.value(owner, context)
    if not isinstance(made, ast.Call) or depth == 0:
        return []
    named = file.resolve(made.func, where)
    given = _assigned(file, owner, context, name) if isinstance(owner, ast.Name) else []
    if isinstance(named, Function):
        values = [node.value for node in named.nodes if isinstance(node, ast.Return) and node.value is not None]
        inner = [field(named.file, value, named.inner, name, depth - 1) for value in values]
        return [*given, *(entry for found in inner for entry in found)] if all(inner) else []
    held = _of_named_tuple(file, made, where)
    if held is None and (named == "types.SimpleNamespace" or isinstance(named, Class)):
        held = entries(file, made, where)
    if held is None:
        return []
    begun = held.get(name)
    is_filled_later = begun is not None and isinstance(begun.node, ast.Constant) and bool(given)
    return given if begun is None or is_filled_later else [begun, *given]


def made_of(file: File, owner: ast.expr, context: Context) -> Class | None:
    """The class of the project that `data` is made of, in `data = Data("/tmp")` and `self.data = Data("/tmp")`."""
    made, where = file.value(owner, context)
    named = file.resolve(made.func, where) if isinstance(made, ast.Call) else None
    return named if isinstance(named, Class) else None


def _assigned(file: File, owner: ast.Name, context: Context, name: str) -> list[Entry]:
    """`parts.loader = ...` of this very variable."""
    bound = file.bindings(owner.id, context)
    return [
        Entry(file, each.value, each.context)
        for each in file.walk.attributes
        if each.target.attr == name
        and each.value is not None
        and is_name(each.target.value, owner.id)
        and file.bindings(owner.id, each.context) is bound
    ]


def _of_named_tuple(file: File, made: ast.Call, context: Context) -> dict[str, Entry | None] | None:
    """The fields of `Parts(net, loader)`, where `Parts = namedtuple("Parts", ["net", "loader"])`."""
    kind, where = file.value(made.func, context)
    if not isinstance(kind, ast.Call) or file.called(kind, where) != "collections.namedtuple" or len(kind.args) != 2:
        return None
    match kind.args[1]:
        case ast.Constant(value=str() as words):
            names = words.replace(",", " ").split()
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            names = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
        case _:
            return None
    if any(isinstance(part, ast.Starred) for part in made.args) or len(made.args) > len(names):
        return None
    held: dict[str, Entry | None] = {
        name: Entry(file, part, context) for name, part in zip(names, made.args, strict=False)
    }
    return held | {word.arg: Entry(file, word.value, context) for word in made.keywords if word.arg is not None}
