"""Models of which each answer sees the tokens up to its own place, and none after it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.model import Class, Function

_MASKED = pattern(
    r"is_causal=True|\btril\(|triu\([^\n]*diagonal=1\b|triu\([^\n]*, 1\)|generate_square_subsequent_mask"
    r"|triu\([^\n]*\)\s*==\s*1"
)
_RECURRENT = pattern(r"\bnn\.(?:LSTM|GRU|RNN)\(|(?<![\w.])(?:LSTM|GRU|RNN)\(")
_SHIFTS = pattern(
    r":-1\b|\b1:(?=[\],])|\bpad\(|\broll\(|narrow\(|shift|diagonal=-1|(?<![a-z])[bs]os(?![a-z])|start_|go_token|flip\(|_start\b"
    r"|mask_token|prepend",
    re.IGNORECASE,
)
_OTHERWISE = pattern(r"autoenc|auto_enc|reconstruct|denois|vae|bert|mlm|copy_?(?:task|ing)|seq2seq|tagg", re.IGNORECASE)
_DEPTH, _MANY = 4, 40


def predicts_ahead(cls: Class) -> bool:
    """Whether a causal mask, or a recurrent layer that goes one way, hides what is to be told, and nothing shifts."""
    parts = list(_parts(cls))
    text = "\n".join(part.text for part in parts)
    if _SHIFTS.search(text) or any(_OTHERWISE.search(part.name) for part in parts) or "Embedding(" not in text:
        return False
    if _MASKED.search(text):
        return True
    return len(_RECURRENT.findall(text)) == 1 and "bidirectional" not in text and "ttention" not in text


def _parts(cls: Class) -> Iterator[Class | Function]:
    """The class, those above it, and the project's classes and functions that are called in them."""
    todo: list[tuple[Class | Function, int]] = [(each, _DEPTH) for each in cls.line]
    seen: set[Class | Function] = set()
    while todo and len(seen) < _MANY:
        part, depth = todo.pop(0)
        if part in seen:
            continue
        seen.add(part)
        yield part
        first, last = part.defined.node.lineno, part.defined.node.end_lineno or 0
        for calls in part.file.walk.calls.values() if depth else ():
            for call, context in calls:
                if first <= call.lineno <= last and last_name(call.func):
                    named = part.file.resolve(call.func, context)
                    if isinstance(named, Class | Function):
                        todo.append((named, depth - 1))
