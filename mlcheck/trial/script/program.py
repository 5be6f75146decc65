"""What can be run as a coroutine: a script, as `python train.py` would run it, or what else trains by itself."""

from __future__ import annotations

import builtins
import sys
from dataclasses import dataclass
from importlib import import_module
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Protocol

from mlcheck.trial.importing import find_module, no_file
from mlcheck.trial.trial import EntryError


class Program(Protocol):
    """`name` in a sentence; `run` begins anew every time."""

    @property
    def name(self) -> str: ...

    def run(self) -> None: ...


@dataclass(frozen=True)
class Script:
    """A file with its command line; with `module`, its dotted name, it is run as `python -m` would run it."""

    path: Path
    arguments: tuple[str, ...] = ()
    module: str = ""

    @property
    def name(self) -> str:
        return self.module or self.path.name

    def run(self) -> None:
        path = self.path.resolve()
        module = ModuleType("__main__")
        module.__file__ = str(path)
        vars(module)["__builtins__"] = builtins
        sys.modules["__main__"] = module
        sys.argv = [str(path), *self.arguments]
        sys.path.insert(0, str(Path.cwd() if self.module else path.parent))
        if self.module:
            module.__spec__ = spec_from_file_location(self.module, path)
            module.__package__ = self.module.rpartition(".")[0]
            if module.__package__:
                import_module(module.__package__)
        exec(compile(path.read_bytes(), str(path), "exec"), vars(module))  # noqa: S102 - its purpose


def script(entry: str, arguments: tuple[str, ...]) -> Script:
    """The program of an entry point that is a file or a module. Raises EntryError where there is none."""
    if not entry.endswith(".py"):
        module, path = find_module(entry)
        return Script(path, arguments, module)
    path = Path(entry)
    if not path.is_file():
        raise EntryError(no_file(path))
    return Script(path, arguments)
