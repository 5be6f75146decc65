"""Functions of compiled code that open files by themselves, past Python's `open`."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch


def compiled_files() -> Iterator[tuple[Any, str, int, bool]]:
    """The owner and name of each, the position of its path, and whether it writes there."""
    yield torch.jit, "load", 0, False
    yield vars(torch.jit)["RecursiveScriptModule"], "save", 1, True
    if find_spec("safetensors") is None:
        return
    package, ours = import_module("safetensors"), import_module("safetensors.torch")
    yield ours, "serialize_file", 1, True
    for owner in (package, ours):
        yield owner, "safe_open", 0, False
