"""One file of the program under analysis: read once, parsed once, or the reason why not."""

from __future__ import annotations

import ast
import codecs
import io
import sys
import warnings
from functools import cached_property
from typing import TYPE_CHECKING

from mlcheck.core.dataclasses import dataclass, field
from mlcheck.core.patterns import pattern
from mlcheck.lint.files.additions import write_additions
from mlcheck.lint.files.annotations import drop_annotations
from mlcheck.lint.files.arguments import place_arguments
from mlcheck.lint.files.remarks import without_remarks
from mlcheck.lint.files.slim import slimmed

if TYPE_CHECKING:
    from mlcheck.lint.sites.walk import Walk

_GENERIC = pattern(r"\s*(?:type\s+\w+\s*(?:\[.*\])?\s*=|(?:def|class)\s+\w+\s*\[)")
_FSTRINGS = pattern(r"unknown encoding: future[_-]fstrings$")
"""A codec that a package brings: UTF-8 in which Python 3.5 finds f-strings."""
_ASYNC = pattern(r"(?<=[(, ])async(?=\s*=[^=])")


@dataclass(frozen=True)
class Source:
    """A parsed file. `module` is its dotted name; `package` is True for an `__init__.py`.

    `outdated` says why Python itself refuses it, where it was written for an older one and could be read all the same.
    """

    path: str
    text: str
    tree: ast.Module = field(repr=False)
    module: str = ""
    outdated: Unreadable | None = None

    @property
    def package(self) -> bool:
        return self.path.replace("\\", "/").rpartition("/")[2] == "__init__.py"

    @cached_property
    def code(self) -> str:
        """The text without what is not run, spaces in its place: comments, and strings that nobody takes."""
        return without_remarks(self.text)

    @cached_property
    def walk(self) -> Walk:
        """What one walk over the tree records."""
        from mlcheck.lint.sites.walking import walked

        return walked(self.tree)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file that cannot be analysed, and why, in one line. Lines and columns count from 1; 0 is unknown."""

    path: str
    line: int
    column: int
    reason: str


def parse(path: str, data: bytes, module: str = "", slim: bool = False) -> Source | Unreadable:
    """Decode (PEP 263, byte order mark) and parse, where asked to into slim nodes. Never raises for what is in it."""
    if b"\0" in data:
        return Unreadable(path, data[: data.index(b"\0")].count(b"\n") + 1, 0, "the file holds null bytes")
    text = decode(path, data)
    if isinstance(text, Unreadable):
        return text
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = compile(text, path, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    except SyntaxError as error:
        said = f"syntax error: {error.msg}{_of_newer_python(text, error)}"
        problem = Unreadable(path, error.lineno or 0, max(error.offset or 0, 0), said)
        return _of_older_python(path, text, module, problem) or problem
    except (RecursionError, MemoryError):
        return Unreadable(path, 0, 0, "the code is nested too deeply to be parsed")
    except ValueError as error:
        return Unreadable(path, 0, 0, str(error))
    assert isinstance(tree, ast.Module)
    drop_annotations(tree, text)
    write_additions(tree, text)
    place_arguments(tree, text)
    return Source(path, text, slimmed(tree, text) if slim else tree, module)


def _of_newer_python(text: str, error: SyntaxError) -> str:
    """What to say where a later Python may read what this one does not: nested quotes in f-strings, type parameters."""
    lines = text.split("\n")
    line = lines[error.lineno - 1] if error.lineno is not None and 0 < error.lineno <= len(lines) else ""
    newer = "f-string" in (error.msg or "") or _GENERIC.match(line) is not None
    if sys.version_info >= (3, 12) or not newer:
        return ""
    return f" (Python 3.12 or later may read it; this is {sys.version_info.major}.{sys.version_info.minor})"


def _of_older_python(path: str, text: str, module: str, problem: Unreadable) -> Source | None:
    """A file that only a keyword argument called `async` keeps from being read: `x.cuda(async=True)`, as before 3.7.

    Every place in it stays where it is.
    """
    renamed = _ASYNC.sub("asink", text)
    if renamed == text:
        return None
    try:
        tree = compile(renamed, path, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    assert isinstance(tree, ast.Module)
    return Source(path, text, tree, module, problem)


def decode(path: str, data: bytes) -> str | Unreadable:
    """The text in the encoding it declares, its lines ended as Python ends them."""
    try:
        encoding = _encoding(data)
    except SyntaxError as error:
        return Unreadable(path, 1, 0, str(error.msg))
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        name = "UTF-8" if encoding.startswith("utf-8") else encoding
        return Unreadable(path, line, 0, f"the file is not {name}: byte 0x{data[error.start]:02x}")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _encoding(data: bytes) -> str:
    """What the file declares. Raises SyntaxError for what Python does not know."""
    if not (data.startswith(codecs.BOM_UTF8) or any(b"coding" in line for line in data.split(b"\n", 2)[:2])):
        return "utf-8"
    import tokenize

    try:
        return tokenize.detect_encoding(io.BytesIO(data).readline)[0]
    except SyntaxError as error:
        if _FSTRINGS.search(str(error.msg)):
            return "utf-8"
        raise
