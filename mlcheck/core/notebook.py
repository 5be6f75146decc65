"""The Python of a Jupyter notebook, each line where the notebook's own file has it.

The format is nbformat 4, https://nbformat.readthedocs.io/en/latest/format_description.html; what IPython adds to
Python is at https://ipython.readthedocs.io/en/stable/interactive/python-ipython-diff.html.
"""

from __future__ import annotations

import ast
import re
import warnings
from json import JSONDecoder, decoder
from json.scanner import py_make_scanner  # type: ignore[attr-defined]
from typing import Any

from mlcheck.core.dataclasses import dataclass, field
from mlcheck.core.patterns import pattern

SUFFIX = ".ipynb"
_RUNS_PYTHON = ("time", "timeit", "prun", "capture")
_FOR_IPYTHON = pattern(r"(?P<indent>\s*)(?:[%!?].*|.*[^\s?]\?{1,2}\s*)$")
_ASSIGNED = pattern(r"(?P<target>\s*[\w., ]+=\s*)[%!].*$")
_TIMED = pattern(r"(?P<indent>\s*)%(?:time|timeit|prun)\s+(?P<run>[^-\s].*)$")


def is_notebook(path: str) -> bool:
    return path.endswith(SUFFIX)


@dataclass(frozen=True, slots=True)
class Notebook:
    """`text` is Python, empty between the lines of the code cells. `cells` tells of a line which cell's it is.

    `left_out` are the numbers of the cells that are no Python, those for another language apart.
    """

    text: str
    cells: dict[int, str] = field(default_factory=dict)
    left_out: tuple[int, ...] = ()


class NoNotebook(ValueError):
    """A file that holds something else."""


class _Placed(str):
    """A JSON string that knows where in the file it begins."""

    start: int


class _Placing(JSONDecoder):
    """Tells of each string that is a value where it stands."""

    def __init__(self) -> None:
        super().__init__()
        self.parse_string = _placed
        self.scan_once = py_make_scanner(self)


def _placed(text: str, start: int, strict: bool) -> tuple[_Placed, int]:
    value, end = decoder.scanstring(text, start, strict)  # type: ignore[attr-defined]
    placed = _Placed(value)
    placed.start = start
    return placed, end


def read_notebook(data: bytes) -> Notebook:
    """The code cells, in the order of the file. Cells in other languages and those Python cannot read are left out.

    A notebook in another language is empty. Raises NoNotebook.
    """
    try:
        raw = data.decode("utf-8-sig")
        content = _Placing().decode(raw)
    except (ValueError, RecursionError) as error:
        raise NoNotebook(f"it is no JSON: {error}") from None
    cells = content.get("cells") if isinstance(content, dict) else None
    if not isinstance(cells, list):
        raise NoNotebook("it has no list of cells, as notebooks of version 4 have")
    if _language(content.get("metadata")) != "python":
        return Notebook("")
    code = [cell.get("source", "") for cell in cells if isinstance(cell, dict) and cell.get("cell_type") == "code"]
    return _laid_out(raw, [_pieces(source) for source in code])


def _language(metadata: Any) -> str:
    """`python` where nothing else is said."""
    told = metadata if isinstance(metadata, dict) else {}
    for table in ("language_info", "kernelspec"):
        entry = told.get(table)
        name = entry.get("name" if table == "language_info" else "language") if isinstance(entry, dict) else None
        if isinstance(name, str):
            return "python" if name.startswith(("python", "ipython")) else name
    return "python"


def _pieces(source: Any) -> list[_Placed]:
    """nbformat allows one string, or one for each line."""
    pieces = source if isinstance(source, list) else [source]
    return [piece for piece in pieces if isinstance(piece, _Placed)]


def _laid_out(raw: str, cells: list[list[_Placed]]) -> Notebook:
    """Each line on the line of its string; where several share one, the later ones go beneath it."""
    lines: list[str] = []
    labels: dict[int, str] = {}
    left_out: list[int] = []
    counted = at = 0
    for number, pieces in enumerate(cells, 1):
        starts = [piece.start for piece in pieces for _ in _lines(piece)]
        written = _lines("".join(pieces))
        read = _as_python(written)
        if any(written) and not any(read) and not written[0].lstrip().startswith("%%"):
            left_out.append(number)
        for inner, (start, line) in enumerate(zip(starts, read, strict=False), 1):
            counted += raw.count("\n", at, start)
            at = max(at, start)
            lines += [""] * (counted - len(lines))
            lines.append(line)
            labels[len(lines)] = f"cell {number}, line {inner}"
    return Notebook("\n".join([*lines, ""]), labels, tuple(left_out))


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


def _as_python(lines: list[str]) -> list[str]:
    """The lines of a cell; what is meant for IPython alone does nothing, and a cell that is no Python is blank."""
    if not _parses(lines):
        lines = [*map(_plain, lines)]
        first = next((number for number, line in enumerate(lines) if line.strip()), 0)
        magic = re.match(r"\s*%%(\w+)", lines[first]) if lines else None
        if magic and magic[1] in _RUNS_PYTHON:
            lines[first] = ""
        if not _parses(lines):
            return [""] * len(lines)
    return lines


def _plain(line: str) -> str:
    if line.lstrip().startswith("%%"):
        return line
    if (timed := _TIMED.match(line)) and _parses([timed["run"]]):
        return f"{timed['indent']}{timed['run']}"
    if assigned := _ASSIGNED.match(line):
        return f"{assigned['target']}get_ipython()"
    told = _FOR_IPYTHON.match(line)
    return f"{told['indent']}pass" if told else line


def _parses(lines: list[str]) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
