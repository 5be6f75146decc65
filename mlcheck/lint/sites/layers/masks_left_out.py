"""Attention masks that are fetched with a batch of tokens, and that no model is given."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import is_name, reads_of, walk
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.layers.modules import module_classes
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.project import Sites

_ALL_KEYS = pattern(r"\*\*|\.items\(\)|\.values\(\)")
_MASK, _TOKENS = "attention_mask", "input_ids"


_PADS = pattern(r"padding\s*=\s*(?:True|['\"](?:max_length|longest)['\"])|pad_to_max_length\s*=\s*True")


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


def unread_masks(sites: Sites) -> Iterator[LeftOut]:
    """`{"ids": enc["input_ids"], "mask": enc["attention_mask"]}` of a padded sample, whose mask nobody reads.

    And `self.bert(ids)` of a pretrained model, which then attends to the padding.
    """
    for file in sites.mentioning([_MASK]):
        for function in file.functions if _PADS.search(file.text) else ():
            for key, kept in _kept_masks(function):
                if not _is_read(sites, key):
                    yield from (LeftOut(call, function.place(kept)) for call in _without_mask(sites))
                    return


def _kept_masks(function: Function) -> Iterator[tuple[str, ast.expr]]:
    """The keys that a padded sample's mask is kept under, where it is returned."""
    for made in function.all(ast.Dict):
        for key, value in zip(made.keys, made.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str) and any(map(_is_entry, walk(value))):
                yield key.value, value


def _is_read(sites: Sites, key: str) -> bool:
    """Whether anything but the one line that keeps it may ask for the key: by its name, or for all keys at once."""
    quoted = re.compile(rf"['\"]{re.escape(key)}['\"]|\.{re.escape(key)}\b")
    spoken = sum(len(quoted.findall(file.text)) for file in sites.files.values())
    together = any(_ALL_KEYS.search(file.text) for file in sites.files.values())
    return together or spoken > 1 + (key == _MASK)


def _without_mask(sites: Sites) -> Iterator[Place]:
    """Calls of pretrained models of Transformers, kept by modules, that get their tokens alone."""
    for cls in sites.once(module_classes):
        forward = cls.methods.get("forward")
        for call in forward.all(ast.Call) if forward is not None else ():
            sets = cls.attribute(own_attribute(call.func, forward))
            values = [assigned.value for _, assigned in sets]
            names = [function.file.called(assigned.value, assigned.context) for function, assigned in sets]
            alone = len(call.args) + len(call.keywords) == 1 and all(word.arg == _TOKENS for word in call.keywords)
            pretrained = len(values) == 1 and names[0].startswith("transformers.") and "from_pretrained" in names[0]
            if alone and pretrained and forward is not None:
                yield forward.place(call)


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
