"""What a rank saves, noted."""

from __future__ import annotations

import functools
import os
from contextlib import ExitStack
from typing import Any

import torch

from mlcheck.trial.ranks.journal import Journal
from mlcheck.trial.ranks.story import Saved
from mlcheck.trial.traceback import user_line


class FileWatch:
    """While installed, notes every checkpoint with the path that the program meant."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._stack = ExitStack()

    def install(self) -> None:
        self._stack.callback(setattr, torch, "save", torch.save)
        torch.save = self._saving(torch.save)

    def remove(self) -> None:
        self._stack.close()

    def _saving(self, original: Any) -> Any:
        @functools.wraps(original)
        def save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
            path = f if isinstance(f, str | os.PathLike) else getattr(f, "name", None)
            if isinstance(path, str | os.PathLike) and user_line()[0]:
                self._journal.note(Saved(os.path.abspath(os.fspath(path)), user_line()))
            return original(obj, f, *args, **kwargs)

        return save
