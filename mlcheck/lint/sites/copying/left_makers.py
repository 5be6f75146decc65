"""What is made for one split by the function that is there for another, while nothing calls its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.values import split_of_name

_WORDS = {"val": ("val", "valid", "validation", "eval"), "test": ("test",)}


class LeftMaker(NamedTuple):
    """The call, the name that gets its result, and the function or class that nothing calls."""

    call: Call
    target: str
    unread: str


def left_makers(sites: Sites, file: File) -> Iterator[LeftMaker]:
    """`val_transforms = get_train_transforms(size)`, where nothing calls `get_val_transforms`."""
    for last in [name for name in file.walk.calls if "train" in name.lower() and split_of_name(name) == "train"]:
        for call in file.calls(last):
            targets = {name for name in file.names_given(call.node) if split_of_name(name) in _WORDS}
            if len(targets) != 1 or not isinstance(call.node.func, ast.Name):
                continue
            target = targets.pop()
            for own in _counterparts(last, split_of_name(target)):
                meant = file.resolve(ast.Name(own, ast.Load()), call.context)
                if isinstance(meant, Function | Class) and not _is_used(sites, own):
                    yield LeftMaker(call, target, own)


def _counterparts(name: str, split: str) -> Iterator[str]:
    for word in _WORDS[split]:
        yield name.replace("train", word)
        yield name.replace("Train", word.capitalize())


def _is_used(sites: Sites, name: str) -> bool:
    """Whether it is called, or handed on, anywhere."""
    return any(file.uses[name] > 0 for file in sites.mentioning([name], tests=True))
