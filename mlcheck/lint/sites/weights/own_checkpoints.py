"""Checkpoints of the program's own: read by the keys that it writes together."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import callers
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.weights.checkpoint_keys import is_returned, keys_read, saved_keys

_FROM_ELSEWHERE = pattern(r"download|https?:|url|hub|pretrain|released", re.IGNORECASE)


def own_checkpoints(sites: Sites) -> frozenset[ast.AST]:
    """The calls of `torch.load` for what one `torch.save` of the program writes, by two keys of it or more.

    One key alone, such as `model`, is that of many a file from elsewhere.
    """
    written = [frozenset(saved_keys(save)) for save in sites.calls("torch.save")]
    calls = sites.calls("torch.load") if any(len(each) > 1 for each in written) else ()
    return frozenset(call.node for call in calls if _is_own(call, written))


def _is_own(load: Call, written: list[frozenset[str]]) -> bool:
    text = load.function.text if load.function is not None else load.file.module.text_of(load.node)
    if _FROM_ELSEWHERE.search(text):
        return False
    readers = [load, *(_callers(load) if is_returned(load) else ())]
    read = {key for reader in readers for key in _read(reader)}
    return len(read) > 1 and any(read <= keys for keys in written)


def _callers(load: Call) -> Iterator[Call]:
    if load.function is not None:
        yield from callers(load.file.sites, load.function)


def _read(call: Call) -> Iterator[str]:
    names = call.file.names_given(call.node)
    around = call.function.node if call.function is not None else call.file.module.source.tree
    for name in names if len(names) == 1 else ():
        yield from keys_read(around, name)
