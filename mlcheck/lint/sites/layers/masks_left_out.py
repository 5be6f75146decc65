"""Attention masks that are fetched with a batch of tokens, and that no model is given."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import is_name, reads_of, walk
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.project import Sites

_MASK, _TOKENS = "attention_mask", "input_ids"


class LeftOut(NamedTuple):
    """The call of the model, and the line that fetched the mask."""

    call: Place
    fetched: Place


def left_out_masks(sites: Sites) -> Iterator[LeftOut]:
    """`attention_mask = batch["attention_mask"]`, and `model(input_ids=input_ids, labels=labels)`."""
    for file in sites.mentioning([_MASK]):
        for function in file.functions:
            if _MASK in function.text and _TOKENS in function.text and "locals()" not in function.text:
                line = _fetched(function)
                call = _asked(function, line) if line is not None else None
                if line is not None and call is not None:
                    yield LeftOut(function.place(call), function.place(line))


def _fetched(function: Function) -> ast.Assign | None:
    """The line that takes the mask out of a batch, where nothing reads it."""
    if reads_of(function.all(ast.Name), _MASK):
        return None
    lines = (line for line in function.all(ast.Assign) if any(is_name(target, _MASK) for target in line.targets))
    return next((line for line in lines if any(map(_is_entry, walk(line.value)))), None)


def _is_entry(node: ast.AST) -> bool:
    """`batch["attention_mask"]`."""
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value == _MASK


def _asked(function: Function, line: ast.Assign) -> ast.Call | None:
    """The first call beneath that gets the tokens, and no mask by whatever way."""
    calls = [call for call in function.all(ast.Call) if call.lineno > line.lineno and _gets_tokens(call)]
    hidden = any(word.arg is None for call in calls for word in call.keywords) or "['attention_mask']" in "".join(
        ast.unparse(call) for call in calls
    )
    return min(calls, key=lambda call: call.lineno) if calls and not hidden else None


def _gets_tokens(call: ast.Call) -> bool:
    given = [*call.args, *(word.value for word in call.keywords)]
    return any(is_name(arg, _TOKENS) for arg in given) and isinstance(call.func, ast.Name | ast.Attribute)
