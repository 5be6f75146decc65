"""The nodes of a syntax tree, in the order of `ast.walk` and several times faster."""

from __future__ import annotations

import ast
from typing import Any

_WORDS = frozenset(["id", "attr", "ctx", "op", "ops", "kind", "type_comment", "simple", "conversion", "is_async"])
_WORDS |= {"level", "module", "asname", "lineno", "tag", "kwd_attrs", "rest"}
_NAMED = frozenset(["Constant", "Global", "Nonlocal", "MatchSingleton", "alias", "MatchStar"])
_FIELDS: dict[type, tuple[str, ...]] = {
    kind: () if kind.__name__ in _NAMED else tuple(name for name in kind._fields if name not in _WORDS)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}


def walk(node: ast.AST) -> list[ast.AST]:
    """The node and all below it, level by level, but for operators and `Load`, `Store`, `Del`."""
    fields = _FIELDS
    found: list[Any] = [node]
    for inner in found:
        for name in fields[inner.__class__]:
            value: Any = getattr(inner, name, None)
            kind = value.__class__
            if kind is list:
                found += [item for item in value if item.__class__ in fields]
            elif kind in fields:
                found.append(value)
    return found
