"""The patterns of `.gitignore` files, with git's meaning: the last match wins, a slash anchors, `!` takes back."""

from __future__ import annotations

import os
import re

from mlcheck.core.named_tuples import NamedTuple


class Pattern(NamedTuple):
    """One line of a .gitignore: `matches` is tried on the path relative to `folder`, with `/` between its parts."""

    matches: re.Pattern[str]
    negated: bool
    folders_only: bool
    folder: str


def read_patterns(folder: str) -> tuple[Pattern, ...]:
    """The patterns of `folder/.gitignore`, none when there is no such file or it cannot be read.

    At the root of a repository those of `.git/info/exclude` come before them.
    """
    return _patterns_in(os.path.join(".git", "info", "exclude"), folder) + _patterns_in(".gitignore", folder)


def _patterns_in(name: str, folder: str) -> tuple[Pattern, ...]:
    try:
        with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
            return tuple(pattern for line in file if (pattern := parse_pattern(line, folder)))
    except OSError:
        return ()


def patterns_above(folder: str) -> tuple[Pattern, ...]:
    """What the repository says before `folder` is entered: the .gitignore files from its root down to the parent."""
    parents = []
    current = os.path.abspath(folder)
    while not os.path.lexists(os.path.join(current, ".git")):
        parent = os.path.dirname(current)
        if parent == current:
            return ()
        current = parent
        parents.append(current)
    return tuple(pattern for parent in reversed(parents) for pattern in read_patterns(parent))


def is_ignored(path: str, is_folder: bool, patterns: tuple[Pattern, ...]) -> bool:
    """Whether the last pattern that matches the absolute `path` excludes it. Patterns come from folders above it."""
    for pattern in reversed(patterns):
        if pattern.folders_only and not is_folder:
            continue
        if pattern.matches.fullmatch(path[len(pattern.folder) :].lstrip(os.sep).replace(os.sep, "/")):
            return not pattern.negated
    return False


def parse_pattern(line: str, folder: str) -> Pattern | None:
    """One line as git reads it; None for blanks, comments and patterns that cannot match."""
    text = line.rstrip("\r\n")
    text = re.sub(r"(?<!\\)[ \t]+$", "", text)
    negated = text.startswith("!")
    text = text[negated:]
    if not text or (text.startswith("#") and not negated):
        return None
    folders_only = text.endswith("/")
    text = text.rstrip("/")
    anchored = "/" in text
    text = text.removeprefix("/")
    if not text:
        return None
    expression = _expression(text if anchored else f"**/{text}")
    try:
        return Pattern(re.compile(expression, re.DOTALL), negated, folders_only, os.path.abspath(folder))
    except re.error:
        return None


def _expression(text: str) -> str:
    """The regular expression of a glob in which `*` stays inside one path part and `**` spans them."""
    parts, place = [], 0
    tokens = re.compile(r"(?:^|(?<=/))\*\*/|/\*\*$|\*+|\?|\[[!^]?\]?[^\]]*\]|\\.|.", re.DOTALL)
    while place < len(text):
        match = tokens.match(text, place)
        assert match is not None
        token, place = match[0], match.end()
        if token == "**/":
            parts.append("(?:.*/)?")
        elif token == "/**":
            parts.append("/.+")
        elif token[0] == "*":
            parts.append("[^/]*")
        elif token == "?":
            parts.append("[^/]")
        elif token[0] == "[" and len(token) > 1:
            inside = token[1:-1].replace("\\", "\\\\")
            parts.append("[" + ("^" + inside[1:] if inside[0] in "!^" else inside) + "]")
        else:
            parts.append(re.escape(token[-1]))
    return "".join(parts)
