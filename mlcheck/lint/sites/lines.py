"""The lines of a function, or of a script's top level."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TypeVar, cast

from mlcheck.core.dataclasses import dataclass
from mlcheck.lint.nodes import grouped, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.scopes import Context

N = TypeVar("N", bound=ast.AST)


@dataclass(eq=False)
class Lines:
    """A function, or a file outside of its functions. What stands there is looked for when it is asked for."""

    file: File
    function: Function | None

    @property
    def context(self) -> Context:
        return self.function.inner if self.function is not None else self.file.walk.module

    @property
    def text(self) -> str:
        return self.function.text if self.function is not None else self.file.text

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(self.function.parameters) if self.function is not None else ()

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return self.function.nodes if self.function is not None else self.file.nodes_in(self.file.module.source.tree)

    def all(self, kind: type[N]) -> list[N]:
        if self.function is not None:
            return self.function.all(kind)
        return cast(list[N], self._by_kind.get(kind.__name__, []))

    @cached_property
    def _by_kind(self) -> dict[str, list[ast.AST]]:
        return grouped(self.nodes)

    @cached_property
    def read(self) -> frozenset[str]:
        """The names that are read here; of a script, anywhere in its file."""
        nodes = walk(self.file.module.source.tree) if self.function is None else self.all(ast.Name)
        return frozenset(n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load | ast.Del))


def all_lines(file: File) -> tuple[Lines, ...]:
    """Each function, and the top level of a script that trains; the same ones whoever asks."""
    return file.sites.once_of(_made, file)


def _made(file: File) -> tuple[Lines, ...]:
    top = (Lines(file, None),) if ".backward(" in file.text else ()
    return (*(Lines(file, function) for function in file.functions), *top)
