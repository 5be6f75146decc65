"""What a script may change in the process around it, and a second run must find as the first did."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from contextlib import suppress
from typing import Any

import torch
from torch import distributed

from mlcheck.trial.traceback import is_user_file

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Surroundings:
    """Remembers folder, environment, command line, modules, start method, signal handlers and torch's settings."""

    def __init__(self) -> None:
        self._folder = os.getcwd()
        self._environment = dict(os.environ)
        self._argv, self._path = sys.argv, list(sys.path)
        self._modules: dict[str, Any] = dict(sys.modules)
        self._start_method = multiprocessing.get_start_method(allow_none=True)
        self._handlers = {number: signal.getsignal(number) for number in _SIGNALS}
        self._dtype = torch.get_default_dtype()
        self._deterministic = torch.are_deterministic_algorithms_enabled()

    def restore(self) -> None:
        """Put it all back. The user's modules that were imported since are forgotten, so that they start afresh."""
        os.chdir(self._folder)
        os.environ.clear()
        os.environ.update(self._environment)
        sys.argv, sys.path[:] = self._argv, self._path
        for name in [name for name, module in sys.modules.items() if name not in self._modules and _is_users(module)]:
            del sys.modules[name]
        sys.modules["__main__"] = self._modules["__main__"]
        multiprocessing.set_start_method(self._start_method, force=True)
        for number, handler in self._handlers.items():
            with suppress(ValueError, TypeError):  # not in the main thread, or a handler from outside of Python
                signal.signal(number, handler)
        torch.set_default_dtype(self._dtype)
        if torch.are_deterministic_algorithms_enabled() != self._deterministic:  # the call loads torch's compiler
            torch.use_deterministic_algorithms(self._deterministic)
        if distributed.is_available() and distributed.is_initialized():
            distributed.destroy_process_group()


def _is_users(module: object) -> bool:
    """A folder that is imported without an `__init__.py` has no file, but it finds itself through its parent."""
    file = getattr(module, "__file__", None)
    files = [file] if isinstance(file, str) else [os.path.join(str(folder), "") for folder in _folders(module)]
    return bool(files) and all(map(is_user_file, files))


def _folders(module: object) -> list[object]:
    """Asked of its own names alone: a module may make up an answer to any other question."""
    path = getattr(module, "__dict__", {}).get("__path__", ())
    try:
        return list(path)
    except (KeyError, TypeError):  # the parent is gone; not a list
        return []
