"""Where in the user's own code something happened: the first frame outside torch, mlcheck and the libraries."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from types import FrameType, TracebackType

from mlcheck.core.finding import Location
from mlcheck.core.notebook import is_notebook, read_notebook
from mlcheck.trial.traceback import STARTED_IN, is_user_file

is_users = cache(is_user_file)


def user_location() -> Location:
    """The innermost frame of the running stack that is the user's; an empty Location without one."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            return _location(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname)
        frame = frame.f_back
    return Location()


def raised_at(error: BaseException) -> Location:
    """Where in the user's code an exception came from; an empty Location where none of it was involved."""
    found = Location()
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if is_users(code.co_filename):
            found = _location(code.co_filename, trace.tb_lineno, code.co_qualname)
        trace = trace.tb_next
    return found


def as_given(path: str) -> str:
    """Relative to the folder that mlcheck runs in where it lies below it, wherever the program has gone meanwhile."""
    return _relative(path, STARTED_IN.get() or os.getcwd())


@cache
def _relative(path: str, folder: str) -> str:
    relative = os.path.relpath(path, folder)
    return path if relative.startswith(os.pardir) else relative


def _location(filename: str, line: int, symbol: str) -> Location:
    within = _cells(filename).get(line) if is_notebook(filename) else None
    return Location(path=as_given(filename), line=line, symbol=within or symbol.replace("<locals>.", ""))


@cache
def _cells(notebook: str) -> dict[int, str]:
    """Of each line of its file which cell's it is."""
    return read_notebook(Path(notebook).read_bytes()).cells
