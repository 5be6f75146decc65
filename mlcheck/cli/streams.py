"""Text for terminals that cannot show every character: a plain one in its place, never an exception."""

from __future__ import annotations

import codecs
import os
import sys
from typing import TextIO

_PLAIN = {
    "·": "-", "×": "x", "→": "->", "←": "<-", "…": "...", "–": "-", "—": "-", "‘": "'", "’": "'", "“": '"', "”": '"',
    "≤": "<=", "≥": ">=", "≠": "!=", "±": "+-", "•": "*", "✓": "ok", "✗": "x", "\u00a0": " ", "\u200b": "",
}  # fmt: skip


def _in_plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    made = "".join(_PLAIN.get(c) or c.encode("ascii", "backslashreplace").decode() for c in missing)
    try:
        made.encode(error.encoding)
    except UnicodeEncodeError:
        made = made.encode("ascii", "replace").decode()
    return made, error.end


def complain(sentence: str) -> None:
    """One sentence on standard error, broken between words where a person reads it."""
    _tell(f"mlcheck: {sentence}", sys.stderr)


def say(sentence: str) -> None:
    """One sentence on standard output, in the same way."""
    _tell(sentence, sys.stdout)


def _tell(text: str, stream: TextIO) -> None:
    if stream.isatty():
        from textwrap import wrap

        room = max(40, columns(80))
        text = "\n".join(wrap(text, room, break_long_words=False, break_on_hyphens=False, subsequent_indent="    "))
    print(text, file=stream)


def columns(otherwise: int) -> int:
    """Of the terminal, which is still there when the output goes through a pipe; COLUMNS is the later word."""
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told):
        return int(told)
    for stream in (sys.__stdout__, sys.__stderr__, sys.__stdin__):
        try:
            return os.get_terminal_size(stream.fileno() if stream else -1).columns or otherwise
        except (OSError, ValueError):
            continue
    return otherwise


def make_safe() -> None:
    """From here on nothing that is printed can raise for want of a character."""
    codecs.register_error("mlcheck.plain", _in_plain)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="mlcheck.plain")
