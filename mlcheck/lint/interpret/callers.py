"""Which functions a call somewhere in the program may reach, by what the called name means where it stands."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mlcheck.lint.program import Definition, ModuleInfo, Program

if TYPE_CHECKING:
    from mlcheck.lint.sites.project import Sites
    from mlcheck.lint.sites.scopes import Binding

_ON_ANYTHING, _IMPORTED = "<object>", "<import>"


class Callers:
    """The calls of one program, by the names that are called."""

    def __init__(self, program: Program, sites: Sites) -> None:
        self._program, self._sites = program, sites
        self._calls: dict[str, frozenset[str]] = {}

    def may_reach(self, module: ModuleInfo, node: Definition, owner: ast.ClassDef | None) -> bool:
        """Whether some file may call it: a function by what its name means there, a method by its name alone."""
        if node.name in self._program.called_elsewhere:
            return True
        if node.name not in self._calls:
            self._calls[node.name] = frozenset(self._ways_to_call(node.name))
        return not self._calls[node.name].isdisjoint({_ON_ANYTHING} if owner else {_IMPORTED, module.source.path})

    def _ways_to_call(self, name: str) -> Iterator[str]:
        """How calls of that name find it: on an object, through an import, or as a function of the same file."""
        for file in self._sites.calling([name], tests=True):
            for call in file.calls(name):
                func: ast.expr = call.node.func
                if isinstance(func, ast.Attribute):
                    yield _ON_ANYTHING
                root = func
                while isinstance(root, ast.Attribute):
                    root = root.value
                bindings = file.bindings(root.id, call.context) if isinstance(root, ast.Name) else []
                if func is root and bindings and all(binding.kind == "def" for binding in bindings):
                    yield file.path
                elif isinstance(root, ast.Name) and (func is root or _may_be_module(bindings)):
                    yield _IMPORTED


def _may_be_module(bindings: Sequence[Binding]) -> bool:
    return not bindings or any(binding.kind in ("import", "from") for binding in bindings)
