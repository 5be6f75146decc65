"""Writes sign-offs and waivers into the text of a `signoff.toml`, and takes the prints they are bound to.

Only the one table is rewritten: comments, order and everything else stay as a person left them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path

from mlcheck.core.report import Result

Entry = Mapping[str, str | date | Sequence[str]]

_SKIPPED = frozenset(["__pycache__", ".git", ".mlcheck_cache"])
_DIGITS = 16


def with_entry(text: str, kind: str, rule: str, entry: Entry) -> str:
    """The text with the table `[kind.rule]` put in place of an earlier one, or at the end."""
    table = f"[{kind}.{rule}]\n" + "".join(f"{key} = {_value(value)}\n" for key, value in entry.items())
    lines = text.splitlines(keepends=True)
    start = next((number for number, line in enumerate(lines) if _header(kind, rule).match(line)), None)
    if start is None:
        before = text if not text or text.endswith("\n") else text + "\n"
        return f"{before}{chr(10) if before.strip() else ''}{table}"
    end = next(
        (number for number in range(start + 1, len(lines)) if lines[number].lstrip().startswith("[")), len(lines)
    )
    while end > start + 1 and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1  # what stands above the next table belongs to that
    return "".join([*lines[:start], table, *lines[end:]])


def _header(kind: str, rule: str) -> re.Pattern[str]:
    return re.compile(rf"""^\s*\[\s*{kind}\s*\.\s*["']?{re.escape(rule)}["']?\s*\]""")


def _value(value: str | date | Sequence[str]) -> str:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str):
        # JSON's strings are TOML's, but for one character that TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return f"[{', '.join(_value(part) for part in value)}]"


def print_of_files(paths: Iterable[str | Path], root: Path) -> str:
    """A digest of the contents and names of files and folders. Raises FileNotFoundError for one that is not there."""
    digest = hashlib.sha256()
    for path in paths:
        place = root / path
        if not place.exists():
            raise FileNotFoundError(str(path))
        for file in _files(place):
            digest.update(f"{path}/{file.relative_to(place)}\0".encode())
            with file.open("rb") as content:
                digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()[:_DIGITS]


def _files(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    return sorted(file for file in place.rglob("*") if file.is_file() and _SKIPPED.isdisjoint(file.parts))


def print_of_evidence(result: Result) -> str:
    """A digest of what a person was told: the evidence in words and numbers. Pictures differ from run to run."""
    told = json.dumps([result.summary, sorted(result.numbers.items())])
    return hashlib.sha256(told.encode()).hexdigest()[:_DIGITS]
