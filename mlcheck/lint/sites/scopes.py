"""Scopes with their names, and the contexts that nodes stand in."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple


class Binding(NamedTuple):
    """What gives a name its meaning. `kind`: value, item (the `item`-th of `value` unpacked, which is no tuple that is
    written out), loop (an element of `value`), with, import, from, def, class, param, other (unknown: `del`,
    `except ... as`, `+=`, a pattern)."""

    kind: str
    value: ast.AST | None
    context: Context
    node: ast.AST
    item: int = 0


class Scope:
    """The names that a module, class or function binds, each with all its bindings in the order of the text."""

    __slots__ = ("bindings", "globals", "kind", "outer")

    def __init__(self, kind: str, outer: Scope | None) -> None:
        self.kind, self.outer = kind, outer
        self.bindings: dict[str, list[Binding]] = {}
        self.globals: set[str] = set()


class Context:
    """Where a node stands: the compound statement around it, `outer` being what stands around that.

    `kind`: module, class, function, lambda, comprehension, loop, if, with, try; `arm` tells the branches apart
    (body, orelse, handler, finally).
    """

    __slots__ = ("arm", "kind", "node", "outer", "scope")

    def __init__(self, kind: str, node: ast.AST, outer: Context | None, scope: Scope, arm: str = "body") -> None:
        self.kind, self.node, self.outer, self.scope, self.arm = kind, node, outer, scope, arm

    def outwards(self) -> Iterator[Context]:
        """This context, the one around it, and so on to the module."""
        context: Context | None = self
        while context is not None:
            yield context
            context = context.outer

    def excludes(self, other: Context) -> bool:
        """Whether the two stand in different branches of one `if` or `try`."""
        arms = {id(outer.node): outer.arm for outer in self.outwards() if outer.kind in ("if", "try")}
        return any(arms.get(id(outer.node), outer.arm) != outer.arm for outer in other.outwards())


class AttributeSet(NamedTuple):
    """`target = value` for an attribute; `value` is None where it is unpacked or augmented.

    Where it is unpacked, it is the `item`-th of `unpacked`.
    """

    target: ast.Attribute
    value: ast.expr | None
    context: Context
    node: ast.stmt | ast.expr
    unpacked: ast.expr | None = None
    item: int = -1


class Defined(NamedTuple):
    """A function or class definition: the context it stands in, and the one of its body."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    context: Context
    inner: Context
