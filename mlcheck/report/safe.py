"""Text from outside made safe to show: nothing invisible, nothing that moves a cursor, nothing endless."""

from __future__ import annotations

import re

from mlcheck.core.patterns import pattern

_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_UNSHOWN = pattern(
    f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b\u2028\u2029\ufeff\ufff9-\ufffb{_BIDI}\ud800-\udfff\ufffe\uffff]"
)


def visible(text: str) -> str:
    """`text` with control characters, direction marks and lone surrogates written out (`\\x1b`, `\\u202e`)."""
    return _UNSHOWN.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def one_line(text: str, limit: int = 600) -> str:
    """`text` on one line, cut in the middle to `limit` characters: both ends of a path or message tell."""
    return visible(" ".join(cut(text.strip(), limit).split()))


def cut(text: str, limit: int) -> str:
    """At most about `limit` characters of `text`: where the middle is left out, that is said."""
    if len(text) <= limit:
        return text
    tail = limit // 4
    return f"{text[: limit - tail]} … {len(text) - limit:,} characters left out … {text[-tail:]}"


def block(text: str, max_lines: int, max_chars: int = 20_000) -> str:
    """Several lines kept as lines; the middle of a long text goes, the first line and the end stay."""
    lines = [visible(line.rstrip()) for line in cut(text, max_chars).expandtabs(4).strip("\n").split("\n")]
    if len(lines) > max_lines:
        dropped = len(lines) - max_lines
        lines = [lines[0], f"  … {dropped:,} lines left out …", *lines[dropped + 1 :]]
    return "\n".join(lines)
