"""Models of which each answer sees the tokens up to its own place, and none after it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.origins import origins

_MASKED = pattern(
    r"is_causal=True|\btril\(|triu\([^\n]*diagonal=1\b|triu\([^\n]*, 1\)|generate_square_subsequent_mask"
    r"|triu\([^\n]*\)\s*==\s*1|\.triu_?\(1\)"
)
_RECURRENT = pattern(r"\bnn\.(?:LSTM|GRU|RNN)\(|(?<![\w.])(?:LSTM|GRU|RNN)\(")
_SHIFTS = pattern(
    r":-1\b|\b1:(?=[\],])|\bpad\(|\broll\(|narrow\(|shift|diagonal=-1|(?<![a-z])[bs]os(?![a-z])|start_|go_token|flip\(|_start\b"
    r"|mask_token|prepend",
    re.IGNORECASE,
)
_OTHERWISE = pattern(r"autoenc|auto_enc|reconstruct|denois|vae|bert|mlm|copy_?(?:task|ing)|seq2seq|tagg", re.IGNORECASE)
_DECODERS = {"torch.nn.Transformer": 1, "torch.nn.TransformerDecoder": 0}
_DEPTH, _MANY = 4, 40


def predicts_ahead(cls: Class) -> bool:
    """Whether a causal mask, or a recurrent layer that goes one way, hides what is to be told, and nothing shifts."""
    parts = list(parts_of(cls))
    text = "\n".join(part.text for part in parts)
    if _SHIFTS.search(text) or any(_OTHERWISE.search(part.name) for part in parts) or "Embedding(" not in text:
        return False
    if _MASKED.search(text):
        return True
    return len(_RECURRENT.findall(text)) == 1 and "bidirectional" not in text and "ttention" not in text


def decoder_input(cls: Class) -> str:
    """The parameter of `forward` that an `nn.Transformer` decodes under a causal mask as it is; "" for none."""
    forward = cls.find("forward")
    text = "\n".join(part.text for part in parts_of(cls)) if forward is not None else ""
    if forward is None or "tgt_mask" not in text or not _MASKED.search(text) or _SHIFTS.search(text):
        return ""
    found = set[str]()
    for node in forward.all(ast.Call):
        call = Call(forward.file, node, forward.inner)
        place = _DECODERS.get(_kind(call))
        given = call.argument("tgt", place) if place is not None and call.argument("tgt_mask") is not None else None
        if isinstance(given, ast.expr):
            found |= _parameters_in(forward, given)
    return found.pop() if len(found) == 1 else ""


def _kind(call: Call) -> str:
    names = {origin.name for origin in origins(call.file, call.node.func, call.context)}
    return names.pop() if len(names) == 1 else ""


def _parameters_in(forward: Function, given: ast.expr) -> set[str]:
    """The tensors of `self.embed(tokens)` that `forward` was given, through names."""
    given, _ = source(forward.file, given, forward.inner)
    names = {node.id for node in walk(given) if isinstance(node, ast.Name)} - {forward.receiver}
    return {name for name in names if name in forward.parameters and len(forward.inner.scope.bindings[name]) == 1}


def parts_of(cls: Class) -> Iterator[Class | Function]:
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
