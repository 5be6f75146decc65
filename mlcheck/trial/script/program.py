"""What can be run as a coroutine: a script, as `python train.py` would run it, or what else trains by itself."""

from __future__ import annotations

import builtins
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Protocol


class Program(Protocol):
    """`name` in a sentence; `run` begins anew every time."""

    @property
    def name(self) -> str: ...

    def run(self) -> None: ...


@dataclass(frozen=True)
class Script:
    """A file with its command line."""

    path: Path
    arguments: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.path.name

    def run(self) -> None:
        path = self.path.resolve()
        module = ModuleType("__main__")
        module.__file__ = str(path)
        vars(module)["__builtins__"] = builtins
        sys.modules["__main__"] = module
        sys.argv = [str(path), *self.arguments]
        sys.path.insert(0, str(path.parent))
        exec(compile(path.read_bytes(), str(path), "exec"), vars(module))  # noqa: S102 - its purpose
