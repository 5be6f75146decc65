"""The nodes of a syntax tree, found several times faster than by `ast.walk`, and what the simplest of them say."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from typing import Any, TypeGuard

from mlcheck.lint.files.slim import by_kind

_WORDS = frozenset(["id", "attr", "ctx", "op", "ops", "kind", "type_comment", "simple", "conversion", "is_async"])
_WORDS |= {"level", "module", "asname", "lineno", "tag", "kwd_attrs", "rest"}
_NAMED = frozenset(["Constant", "Global", "Nonlocal", "MatchSingleton", "alias", "MatchStar"])
_FIELDS: dict[type, tuple[str, ...]] = by_kind(
    {
        kind: () if kind.__name__ in _NAMED else tuple(name for name in kind._fields if name not in _WORDS)
        for kind in vars(ast).values()
        if isinstance(kind, type) and issubclass(kind, ast.AST)
    }
)
_SCOPES = frozenset(by_kind(dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda))))


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


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """What stands in a module, class or function, without the functions and classes defined in it.

    As with `walk`, operators and `Load`, `Store`, `Del` are left out.
    """
    fields = _FIELDS
    todo: list[Any] = [scope]
    while todo:
        node = todo.pop()
        kind = node.__class__
        if node is not scope:
            if kind in _SCOPES:
                continue
            yield node
        for name in fields[kind]:
            value: Any = getattr(node, name, None)
            kind = value.__class__
            if kind is list:
                todo += [item for item in value if item.__class__ in fields]
            elif kind in fields:
                todo.append(value)


def grouped(found: Iterable[ast.AST]) -> dict[str, list[ast.AST]]:
    """Nodes by the names of their classes, in the order in which they come."""
    groups: dict[str, list[ast.AST]] = {}
    for node in found:
        groups.setdefault(node.__class__.__name__, []).append(node)
    return groups


def assigned(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Each target and its value, also in `micro, done = 0, done + 1`."""
    for target in node.targets:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(target.elts, node.value.elts, strict=False)
        else:
            yield target, node.value


def last_name(node: ast.AST | None) -> str:
    """`c` of `c` and of `a.b.c`; "" of anything else."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def dotted(node: ast.AST) -> str:
    """`a.b.c` as it is written; "" of all that is no name, nor an attribute of one."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def is_name(node: ast.AST | None, name: str) -> TypeGuard[ast.Name]:
    """Whether this variable stands there, read or assigned."""
    return isinstance(node, ast.Name) and node.id == name


def is_attribute(node: ast.AST, owner: str, name: str) -> bool:
    """Whether it is written `owner.name`."""
    return isinstance(node, ast.Attribute) and node.attr == name and is_name(node.value, owner)


def before_methods(node: ast.expr, methods: Collection[str]) -> ast.expr:
    """`x` of `x.to(device).float()`, where these methods are called last."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in methods:
        node = node.func.value
    return node


def stores(node: ast.AST, name: str) -> bool:
    """Whether the variable is assigned or deleted."""
    return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store | ast.Del) for n in walk(node))


def loads(node: ast.AST, name: str) -> bool:
    """Whether the variable is read."""
    return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) for n in walk(node))


def reads_of(nodes: Iterable[ast.AST], name: str) -> list[ast.Name]:
    """Where the variable is read, of these nodes."""
    return [node for node in nodes if is_name(node, name) and isinstance(node.ctx, ast.Load)]


def stores_of(nodes: Iterable[ast.AST], name: str) -> list[ast.Name]:
    """Where the variable is assigned, of these nodes."""
    return [node for node in nodes if is_name(node, name) and isinstance(node.ctx, ast.Store)]


def is_length(node: ast.AST) -> bool:
    """`len(x)`."""
    return isinstance(node, ast.Call) and is_name(node.func, "len")


def is_none(node: ast.AST | None) -> bool:
    """`None`, as it is written."""
    return isinstance(node, ast.Constant) and node.value is None


def package_said(said: ast.expr | None) -> str:
    """`models` of `"models." + name` and its like."""
    match said:
        case ast.BinOp(left=ast.Constant(value=str(start)), op=ast.Add()):
            pass
        case ast.JoinedStr(values=[ast.Constant(value=str(start)), ast.FormattedValue()]):
            pass
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format"), args=[_], keywords=[]):
            start = text.removesuffix("{}")
        case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Mod()):
            start = text.removesuffix("%s")
        case _:
            return ""
    home = start.removesuffix(".")
    return home if start != home and all(part.isidentifier() for part in home.split(".")) else ""
