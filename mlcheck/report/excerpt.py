"""The line of code a place is in, fitted to a terminal, with marks under the span."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

from mlcheck.core.finding import Location
from mlcheck.core.source_text import read_source
from mlcheck.report.safe import visible

_TAB = 4

Sources = Callable[[str], list[str]]


def source_lines(path: str) -> list[str]:
    """The lines of a file as Python numbers them, those of a notebook's code; none when it cannot be read."""
    try:
        return read_source(path).split("\n")
    except (OSError, SyntaxError, ValueError):
        return []


def line_of(place: Location, code: Sources) -> str:
    """The line of code at `place`, empty when there is none."""
    lines = code(place.path) if place.path and place.line else []
    return lines[place.line - 1] if 0 < place.line <= len(lines) else ""


def excerpt(place: Location, code: Sources, width: int) -> tuple[str, str] | None:
    """The line of code and the marks under the span, without common indentation and cut to `width` columns."""
    line = line_of(place, code).rstrip()
    if not line.strip() or place.column > len(line):
        return None
    first = max(place.column - 1, 0)
    last = place.end_column - 1 if place.end_line == place.line else len(line)
    if not place.column:
        first, last = len(line) - len(line.lstrip()), len(line)
    cells = _cells(line)
    indent = len(line) - len(line.lstrip())
    start, stop = _window(cells, min(indent, first), first, width)
    shown = "".join(cells[start:stop])
    before, marked = "".join(cells[start:first]), "".join(cells[first : max(last, first + 1)][: stop - first])
    left, right = "… " if start > indent else "", " …" if stop < len(cells) else ""
    marks = " " * (_columns(left) + _columns(before)) + "^" * max(_columns(marked), 1)
    return left + shown + right, marks


def _window(cells: list[str], start: int, first: int, width: int) -> tuple[int, int]:
    """The part of the line to show: from its start where the span's start then is in view, else from shortly before."""
    room = width - 4
    if sum(_columns(cell) for cell in cells[start:]) <= width:
        return start, len(cells)
    if sum(_columns(cell) for cell in cells[start:first]) > room * 2 // 3:
        start = first
        while start and sum(_columns(cell) for cell in cells[start - 1 : first]) <= room // 3:
            start -= 1
    stop, used = start, 0
    while stop < len(cells) and used + _columns(cells[stop]) <= room:
        used += _columns(cells[stop])
        stop += 1
    return start, max(stop, first + 1)


def clipped(text: str, width: int) -> str:
    """The beginning of `text` in at most `width` columns, with dots where something is left out."""
    if _columns(text) <= width:
        return text
    kept, used = "", 0
    for character in text:
        used += _columns(character)
        if used > width - 2:
            break
        kept += character
    return f"{kept.rstrip()} …"


def _cells(line: str) -> list[str]:
    """What each character is shown as: tabs as spaces to the next stop, what would move the cursor written out."""
    cells, column = [], 0
    for character in line:
        cell = " " * (_TAB - column % _TAB) if character == "\t" else visible(character)
        cells.append(cell)
        column += _columns(cell)
    return cells


def _columns(text: str) -> int:
    """How many columns a terminal gives to `text`: two to wide characters, none to combining marks."""
    if text.isascii():
        return len(text)
    widths = (0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
    return sum(widths)
