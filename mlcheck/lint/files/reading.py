"""The files of a run: read once, parsed when somebody asks, their places told in characters."""

from __future__ import annotations

from functools import cached_property

from mlcheck.core.dataclasses import dataclass, replace
from mlcheck.core.digest import digest
from mlcheck.core.finding import Location
from mlcheck.core.notebook import NoNotebook, is_notebook, read_notebook
from mlcheck.lint.files.discover import PythonFile
from mlcheck.lint.files.outlines import NOTHING, Outline, outline
from mlcheck.lint.files.source import Source, Unreadable, decode, parse


@dataclass(frozen=True, slots=True)
class Buffer:
    """Text that stands for the file at `path`, as an editor holds it: only its findings are told."""

    path: str
    data: bytes


class Text:
    """One file of the program. `slim`: its syntax tree is to take little memory, though more time to make."""

    def __init__(self, file: PythonFile, data: bytes | None = None) -> None:
        self.path, self.module = file
        self.slim = False
        self.problem = ""
        self.data = b""
        self._cells: dict[int, str] = {}
        try:
            self.data = _read(self.path) if data is None else data
            if is_notebook(self.path):
                self._take_notebook()
        except OSError as error:
            self.problem = f"cannot be read: {error.strerror}"

    def _take_notebook(self) -> None:
        """From here on it is the Python of its cells."""
        try:
            notebook = read_notebook(self.data)
        except NoNotebook as error:
            self.problem, self.data = f"is no notebook: {error}", b""
            return
        self.data, self._cells = notebook.text.encode(), notebook.cells

    @cached_property
    def digest(self) -> str:
        """Of the content; of a file that cannot be read, of the reason."""
        return digest(self.problem.encode() + b"\0" + self.data)

    @cached_property
    def source(self) -> Source | Unreadable:
        if self.problem:
            return Unreadable(self.path, 0, 0, self.problem)
        return parse(self.path, self.data, self.module, self.slim)

    def release(self) -> None:
        """Let the syntax tree go."""
        self.__dict__.pop("source", None)

    def __getstate__(self) -> dict[str, object]:
        """To another process it goes as text."""
        return {name: value for name, value in self.__dict__.items() if name not in ("source", "lines")}

    def outline(self) -> Outline:
        return outline(self.source) if isinstance(self.source, Source) else NOTHING

    @cached_property
    def lines(self) -> list[str]:
        """No lines where the text cannot be decoded."""
        text = decode(self.path, self.data)
        return text.split("\n") if isinstance(text, str) else []

    def as_told(self, place: Location) -> Location:
        """Columns in characters, where Python's parser counts UTF-8 bytes; in a notebook, with the cell."""
        if cell := self._cells.get(place.line):
            place = replace(place, symbol=cell)
        if self.data.isascii():
            return place
        return replace(
            place,
            column=_characters(self.lines, place.line, place.column),
            end_column=_characters(self.lines, place.end_line, place.end_column),
        )


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _characters(lines: list[str], line: int, column: int) -> int:
    """The column in characters of a column in bytes, both from 1."""
    if not 0 < line <= len(lines) or column < 1:
        return column
    return len(lines[line - 1].encode("utf-8")[: column - 1].decode("utf-8", "ignore")) + 1
