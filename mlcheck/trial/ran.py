"""Which of the user's files a program runs: what is seen of the program says nothing of the others."""

from __future__ import annotations

import os
import sys
from typing import Any

from mlcheck.trial.traceback import is_user_file

_CODE = (".py", ".ipynb")


class Ran:
    """From `begin` on, the files whose code is executed in this process, as modules or as the program itself."""

    def __init__(self) -> None:
        self._paths: set[str] = set()

    def begin(self) -> None:
        """For the rest of this process: an audit hook cannot be taken out again."""
        sys.addaudithook(self._hear)

    def files(self) -> list[str]:
        """Their real paths."""
        return sorted({os.path.realpath(path) for path in self._paths})

    def _hear(self, event: str, given: tuple[Any, ...]) -> None:
        if event == "exec":
            name = getattr(given[0], "co_filename", "")
            if name.endswith(_CODE) and is_user_file(name):
                self._paths.add(os.path.abspath(name))
