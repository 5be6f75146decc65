"""A word to say to modules as soon as the program has imported them."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class AfterImport:
    """Calls `then` with each module of these names as soon as it has been imported."""

    def __init__(self, names: Iterable[str], then: Callable[[ModuleType], None]) -> None:
        self._names, self._then = frozenset(names), then
        self._asking: set[str] = set()

    def install(self) -> None:
        sys.meta_path.insert(0, self)
        for name in sorted(self._names):
            module = sys.modules.get(name)
            if module is not None:
                self._then(module)

    def remove(self) -> None:
        with suppress(ValueError):
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        """What the others find, with a word to say after the module has run."""
        if name not in self._names or name in self._asking:
            return None
        self._asking.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._asking.discard(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                self._then(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def owner_of(module: ModuleType, path: str) -> tuple[Any, str]:
    """Where `Class.method` or a function hangs, and its own name; the owner is None where the module has none such."""
    *classes, name = path.split(".")
    owner: Any = module
    for inner in classes:
        owner = getattr(owner, inner, None)
    return (owner if hasattr(owner, name) else None), name
