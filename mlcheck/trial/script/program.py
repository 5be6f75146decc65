"""What can be run as a coroutine: a script as `python train.py` runs it, a notebook, what else trains by itself."""

from __future__ import annotations

import builtins
import linecache
import os
import re
import sys
from dataclasses import dataclass
from importlib import import_module
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Protocol

from mlcheck.core.notebook import NoNotebook, is_notebook, read_notebook
from mlcheck.core.source_text import is_code, read_source
from mlcheck.trial.importing import find_module, no_file
from mlcheck.trial.trial import EntryError

_READS_ARGUMENTS = re.compile(r"argv|parse|get_args|\b(?:absl|click|docopt|fire|hydra|tyro|typer)\b")


class Program(Protocol):
    """`name` in a sentence, `change` what to do that it trains otherwise; `run` begins anew every time."""

    @property
    def name(self) -> str: ...

    @property
    def change(self) -> str: ...

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

    @property
    def change(self) -> str:
        if self.arguments or _READS_ARGUMENTS.search(self.path.read_text("utf-8", "replace")):
            return f"give it other arguments (mlcheck probe {self.module or self.path} -- ARGUMENTS)"
        return f"change {self.path.name} or its configuration"

    def run(self) -> None:
        path = self.path.resolve()
        module = _become_main(path, self.arguments)
        sys.path.insert(0, str(Path.cwd() if self.module else path.parent))
        if self.module:
            module.__spec__ = spec_from_file_location(self.module, path)
            module.__package__ = self.module.rpartition(".")[0]
            if module.__package__:
                import_module(module.__package__)
        exec(compile(path.read_bytes(), str(path), "exec"), vars(module))  # noqa: S102 - its purpose


@dataclass(frozen=True)
class Notebook:
    """All its cells in their order and in its own folder, as Jupyter's "restart and run all" would run them."""

    path: Path
    arguments: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def change(self) -> str:
        return "change its cells"

    def run(self) -> None:
        path = self.path.resolve()
        text = read_source(str(path))
        # As IPython does for its cells: tracebacks and `inspect` find the lines of the code, not those of the JSON.
        linecache.cache[str(path)] = (len(text), None, text.splitlines(keepends=True), str(path))
        module = _become_main(path, self.arguments)
        vars(module).update(display=print, get_ipython=_no_shell)
        os.chdir(path.parent)
        sys.path.insert(0, str(path.parent))
        exec(compile(text, str(path), "exec"), vars(module))  # noqa: S102 - its purpose


def _no_shell() -> None:
    """What IPython answers where none of its shells runs."""


def _become_main(path: Path, arguments: tuple[str, ...]) -> ModuleType:
    """A new `__main__` of that file and command line."""
    module = ModuleType("__main__")
    module.__file__ = str(path)
    vars(module)["__builtins__"] = builtins
    sys.modules["__main__"] = module
    sys.argv = [str(path), *arguments]
    return module


def program(entry: str, arguments: tuple[str, ...]) -> Script | Notebook:
    """The program of an entry point that is a file or a module. Raises EntryError where there is none."""
    if not is_code(entry):
        module, path = find_module(entry)
        return Script(path, arguments, module)
    path = Path(entry)
    if not path.is_file():
        raise EntryError(no_file(path))
    return Notebook(path, arguments) if is_notebook(entry) else Script(path, arguments)


def left_out(notebook: Notebook) -> tuple[int, ...]:
    """The numbers of its cells that cannot be run. Raises EntryError where it has no code at all, or is no notebook."""
    try:
        read = read_notebook(notebook.path.read_bytes())
    except (OSError, NoNotebook) as error:
        raise EntryError(f"{notebook.path} cannot be read as a notebook: {error}") from None
    if not read.text.strip():
        raise EntryError(f"{notebook.path} has no cell with code of Python's")
    return read.left_out
