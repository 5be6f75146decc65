"""Which classes a layer may be of where a line runs, as an `isinstance` tells."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.names import canonical
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.branches import branches_of
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.scopes import Context


def kinds_left(call: Call, name: str) -> set[str]:
    """Those of `if not isinstance(name, ...): continue`, where the layer is filled in the lines below it."""
    loop = call.loops[0].node if call.loops else None
    if not isinstance(loop, ast.For) or any(outer.kind in ("if", "try") for outer in _within(call, loop)):
        return set()
    lines = {line for line in loop.body if any(node is call.node for node in walk(line))}
    tests = [each.test for each in branches_of(loop.body) if each.follows(each.held) and lines & set(each.held)]
    return classes_asked(call.file, tests[0], call.context, name) if len(tests) == 1 else set()


def _within(call: Call, loop: ast.For) -> Iterator[Context]:
    for outer in call.context.outwards():
        if outer.node is loop:
            return
        yield outer


def classes_asked(file: File, test: ast.expr, context: Context, name: str) -> set[str]:
    """The second argument of `isinstance(name, ...)`; what `type(name)` is compared with."""
    match test:
        case ast.Compare(
            left=ast.Call(func=ast.Name(id="type"), args=[ast.Name(id=asked)]),
            ops=[ast.Eq() | ast.Is() | ast.In()],
            comparators=[kinds],
        ) if asked == name:
            listed = kinds.elts if isinstance(kinds, ast.Tuple | ast.List | ast.Set) else [kinds]
            resolved = [file.resolve(cls, context) for cls in listed]
            return {canonical(cls) if isinstance(cls, str) else "?" for cls in resolved}
    if not isinstance(test, ast.Call) or getattr(test.func, "id", "") != "isinstance" or len(test.args) != 2:
        return set()
    if not isinstance(test.args[0], ast.Name) or test.args[0].id != name:
        return set()
    given = test.args[1]
    named = [file.resolve(cls, context) for cls in (given.elts if isinstance(given, ast.Tuple) else [given])]
    return {canonical(cls) if isinstance(cls, str) else "?" for cls in named}
