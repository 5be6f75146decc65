"""Activations of functions, and the ways out of them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable

from mlcheck.core.dataclasses import dataclass, field
from mlcheck.lint.interpret.store import Delta
from mlcheck.lint.program import FunctionInfo, ModuleInfo
from mlcheck.lint.values import Value


class DeadPath(Exception):
    """Control never comes back here: every way through the call raises or exits."""


@dataclass(slots=True)
class Exit:
    """A way out of a construct other than its end: return (with its value), break or continue."""

    kind: str
    value: Value | None
    delta: Delta


@dataclass(slots=True)
class Sink:
    """Collects the exits of one construct, as changes since its mark."""

    mark: int
    exits: list[Exit] = field(default_factory=list)


@dataclass(slots=True)
class Frame:
    """One activation of a function, or of a module's top level."""

    module: ModuleInfo
    scope: Hashable
    sink: Sink
    call: int
    info: FunctionInfo | None = None
    bound: Value | None = None
    on_yield: Callable[[Value], Value] | None = None
    steps: int = 0
    node: ast.AST | None = None  # the call that it runs for
