"""A traceback for a few lines: every frame of the user's, and of the libraries between them only who they were."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from mlcheck.core.plural import plural

# As Python writes a frame (`, in forward`) and as faulthandler does (` in forward`).
_FRAME = re.compile(r'\s*File "(?P<file>[^"]+)", line (?P<line>\d+),? in (?P<name>.+)')
_PACKAGE = re.compile(r"(?:site|dist)-packages/([^/]+)")
_STANDARD_LIBRARY = re.compile(r"/lib(?:64)?/python3[^/]*/|^<frozen ")
_MARKS = " \t~^|"  # beneath a line of code
_MOST_FRAMES = 8


def folded(traceback: str) -> str:
    """`traceback` with each run of library frames as one line, and a long run of the user's without its middle.

    Message, headings and the traceback of a cause stay as they are. Without a frame of the user's so does everything.
    """
    parts = list(_parts(traceback.strip("\n").split("\n")))
    if not any(_is_frame(part) and not _library(part) for part in parts):
        return traceback
    lines: list[str] = []
    for (is_frame, library), run in groupby(parts, key=lambda part: (_is_frame(part), bool(_library(part)))):
        found = list(run)
        if library:
            lines.append(_named(found))
        else:
            lines += [line for part in (_shortened(found) if is_frame else found) for line in part]
    return "\n".join(lines)


def _parts(lines: list[str]) -> Iterator[list[str]]:
    """Each frame with the code beneath it; any other line alone."""
    part: list[str] = []
    for line in lines:
        deeper = len(line) - len(line.lstrip()) > len(part[0]) - len(part[0].lstrip()) if part else False
        if part and _is_frame(part) and deeper and not _FRAME.match(line):
            if line.strip(_MARKS):
                part.append(line)
            continue
        if part:
            yield part
        part = [line]
    yield part


def _is_frame(part: list[str]) -> bool:
    return _FRAME.match(part[0]) is not None


def _library(part: list[str]) -> str:
    """The package a frame belongs to, `Python` for the standard library; empty for the user's files and other lines."""
    frame = _FRAME.match(part[0])
    path = frame["file"].replace("\\", "/") if frame else ""
    if package := _PACKAGE.search(path):
        return package[1].removesuffix(".py")
    return "Python" if _STANDARD_LIBRARY.search(path) else ""


def _named(run: list[list[str]]) -> str:
    """`… 4 frames of torch, the last in batch_norm …`."""
    packages = ", ".join(dict.fromkeys(_library(part) for part in run))
    last = _FRAME.match(run[-1][0])
    name = last["name"] if last else ""
    indent = run[0][0][: len(run[0][0]) - len(run[0][0].lstrip())]
    return f"{indent}… {plural(len(run), 'frame')} of {packages}, {'in' if len(run) == 1 else 'the last in'} {name} …"


def _shortened(run: list[list[str]]) -> list[list[str]]:
    left = len(run) - _MOST_FRAMES
    half = _MOST_FRAMES // 2
    return [*run[:half], [f"  … {plural(left, 'more frame')} …"], *run[-half:]] if left > 0 else run
