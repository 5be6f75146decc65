"""The text of a file without its remarks: comments, docstrings, and code that is put out of use in quotes."""

from __future__ import annotations

from re import Match

from mlcheck.core.patterns import pattern

_QUOTES = (
    r'"""[^"\\]*(?:(?:\\[\s\S]|"(?!""))[^"\\]*)*"""',
    r"'''[^'\\]*(?:(?:\\[\s\S]|'(?!''))[^'\\]*)*'''",
    r'"[^"\\\n]*(?:\\[\s\S][^"\\\n]*)*"',
    r"'[^'\\\n]*(?:\\[\s\S][^'\\\n]*)*'",
)
_COMMENTS_AND_STRINGS = pattern("|".join((r"#[^\n]*", *_QUOTES)))
_SEEN = pattern(r"[^\n]")
_GOES_ON = ("(", "[", "{", ",", "=", "+", "\\")


def without_remarks(text: str) -> str:
    """Spaces in the place of what is not run; every line and column stays where it is."""
    if "#" not in text and '"""' not in text and "'''" not in text:
        return text
    return _COMMENTS_AND_STRINGS.sub(_blanked, text)


def _blanked(found: Match[str]) -> str:
    told = found[0]
    if told[0] == "#":
        return " " * len(told)
    return _SEEN.sub(" ", told) if told[:3] in ('"""', "'''") and _stands_alone(found) else told


def _stands_alone(found: Match[str]) -> bool:
    """Whether nothing takes the string: it has its lines to itself, and what is above it is complete."""
    text, start, end = found.string, found.start(), found.end()
    line = text.rfind("\n", 0, start) + 1
    behind = text[end : text.find("\n", end) if "\n" in text[end:] else len(text)].lstrip()
    if text[line:start].strip(" \tru") or (behind and not behind.startswith("#")):
        return False
    return not text[:line].rstrip().endswith(_GOES_ON)
