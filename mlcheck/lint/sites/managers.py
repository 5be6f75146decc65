"""Context managers of the project: what they do in the end, and the `with` blocks that they are entered for."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites.model import Call, Class, Function

_DECORATORS = ("contextmanager", "asynccontextmanager")


class Block(NamedTuple):
    """`with call: body`."""

    call: Call
    body: list[ast.stmt]


def ended_by(call: Call) -> Function | Class | None:
    """The context manager that makes this call in the end: behind its `yield`, or in its `__exit__`."""
    function = call.function
    if function is None:
        return None
    if function.cls is not None and function.name == "__exit__":
        return function.cls if function.cls.find("__enter__") is not None else None
    if not any(last_name(each) in _DECORATORS for each in function.node.decorator_list):
        return None
    yields = function.all(ast.Yield)
    return function if len(yields) == 1 and yields[0].lineno < call.node.lineno else None


def blocks_of(manager: Function | Class) -> Iterator[Block]:
    """The `with` blocks that certainly enter it."""
    for file in manager.file.sites.mentioning([manager.name]):
        for call in file.calls(manager.name, *file.walk.aliases.get(manager.name, ())):
            if file.resolve(call.node.func, call.context) is not manager:
                continue
            names = file.names_given(call.node)
            for node in call.function.nodes if call.function is not None else walk(file.module.source.tree):
                entered = [item.context_expr for item in node.items] if isinstance(node, ast.With) else []
                if isinstance(node, ast.With) and any(e is call.node or last_name(e) in names for e in entered):
                    yield Block(call, node.body)
