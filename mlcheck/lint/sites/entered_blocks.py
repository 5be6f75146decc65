"""The `with` blocks that enter what a call makes: at once, by a name, or where a function hands it out."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.origins import callers, origins, returns


class Block(NamedTuple):
    """A `with` block, and the function that it stands in (None: at the top level)."""

    node: ast.With
    function: Function | None

    @property
    def around(self) -> list[ast.AST]:
        """All that stands in its function."""
        return self.function.nodes if self.function is not None else []


def blocks_entering(call: Call) -> list[Block]:
    """`with model.no_sync():`, `context = model.no_sync()` above `with context:`, `with self.maybe_no_sync(step):`.

    And `with self.context:`, of what an object or the module keeps.
    """
    function, kept = call.function, _by_kept_name(call)
    if function is None:
        blocks = [node for node in walk(call.file.module.source.tree) if isinstance(node, ast.With)]
        own = [node for node in blocks if any(item.context_expr is call.node for item in node.items)]
        return [*(Block(node, None) for node in own), *kept]
    found = [Block(node, function) for node in function.all(ast.With) if _enters(node, function, call)]
    found += [block for block in kept if block not in found]
    if not _hands_out(function, call, found):
        return found
    for caller in callers(call.file.sites, function):
        if caller.function is not None:
            blocks = caller.function.all(ast.With)
            found += [Block(node, caller.function) for node in blocks if _enters(node, caller.function, caller)]
    return found


def _by_kept_name(call: Call) -> list[Block]:
    """The blocks of the file that enter an attribute, or a name of the module, that is what the call makes."""
    names = call.file.names_given(call.node)
    functions = [
        each
        for each in call.file.functions
        if any(f"with {pre}{name}" in each.text for name in names for pre in ("", "self."))
    ]
    return [
        Block(node, function)
        for function in functions
        for node in function.all(ast.With)
        if any(last_name(item.context_expr) in names for item in node.items) and _enters(node, function, call)
    ]


def _enters(block: ast.With, function: Function, call: Call) -> bool:
    return any(_is_made_by(item.context_expr, function, call) for item in block.items)


def _is_made_by(value: ast.expr, function: Function, call: Call) -> bool:
    if isinstance(value, ast.Call):
        return value is call.node
    return any(origin.node is call.node for origin in origins(function.file, value, function.inner))


def _hands_out(function: Function, call: Call, entered: list[Block]) -> bool:
    """Whether it returns the context; or enters it and yields, as `@contextmanager` wants it."""
    if any(_is_made_by(value, function, call) for value in returns(function)):
        return True
    managed = any("contextmanager" in last_name(each) for each in function.node.decorator_list)
    return managed and any(isinstance(node, ast.Yield) for block in entered for node in _inside(block))


def _inside(block: Block) -> Iterator[ast.AST]:
    for line in block.node.body:
        yield from walk(line)
