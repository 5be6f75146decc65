"""Tracebacks of the user's own errors, without the frames that led into their code."""

from __future__ import annotations

import functools
import os
import re
import sys
import sysconfig
import traceback
from contextvars import ContextVar
from pathlib import Path
from types import FrameType, TracebackType

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_MLCHECK = f"{Path(__file__).resolve().parent.parent}{os.sep}"
# Where mlcheck was when it handed over to code that may change the folder; empty elsewhere.
STARTED_IN: ContextVar[str] = ContextVar("mlcheck_started_in", default="")
_LIBRARIES = tuple({f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def error_line(exc: BaseException, most: int = 300) -> str:
    """Type and first line of the message, as the last line of a traceback begins; a longer one ends at a word."""
    line = plain(f"{type(exc).__name__}: {exc}").splitlines()[0]
    if len(line) > most:
        return f"{line[:most].rpartition(' ')[0] or line[:most]} …"
    return line.rstrip(": ")


def plain(text: str) -> str:
    """Without the colours that some messages bring for a terminal."""
    return _COLOURS.sub("", text)


def user_traceback(exc: BaseException) -> str:
    """The traceback of `exc` and its causes, from the first frame in the user's files on.

    Frames of mlcheck (which stands in for a framework in places) are left out wherever they stand. An
    exception without a frame of the user's keeps all other frames.
    """
    summary = traceback.TracebackException.from_exception(exc)
    seen: set[int] = set()
    chain: list[traceback.TracebackException | None] = [summary]
    while chain:
        link = chain.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        link.stack = traceback.StackSummary.from_list(_from_the_users_on(link.stack))
        chain += [link.__cause__, link.__context__, *(link.exceptions or ())]
    return plain("".join(summary.format()))


def _from_the_users_on(stack: traceback.StackSummary) -> list[traceback.FrameSummary]:
    """What called mlcheck comes before its first frame and is none of the user's, wherever its file is."""
    entered = next((i for i, frame in enumerate(stack) if frame.filename.startswith(_MLCHECK)), 0)
    frames = [frame for frame in stack[entered:] if not frame.filename.startswith((_MLCHECK, "<frozen importlib"))]
    first = next((i for i, frame in enumerate(frames) if is_user_file(frame.filename)), 0)
    return frames[first:]


def user_frame(trace: TracebackType | None) -> tuple[str, int] | None:
    """File and line of the innermost frame in the user's files: where their code went wrong."""
    innermost = None
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if is_user_file(name):
            innermost = (name, trace.tb_lineno)
        trace = trace.tb_next
    return innermost


def is_user_file(filename: str) -> bool:
    """Whether a file belongs neither to mlcheck, nor to the standard library or an installed package.

    Compiled modules name the source that they were made of (`numpy/random/mtrand.pyx`), which is nowhere.
    """
    if filename.startswith(("<", _MLCHECK)) or filename.endswith((".pyx", ".pxi", ".pxd")):
        return False
    return not filename.startswith(_LIBRARIES) and "site-packages" not in filename


_is_users = functools.cache(is_user_file)


def user_line() -> tuple[str, int]:
    """File and line of the innermost running frame that is the user's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if _is_users(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return "", 0
