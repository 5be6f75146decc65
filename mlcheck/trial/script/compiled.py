"""Ways to open a file that are not Python's `open` looked up by its name."""

from __future__ import annotations

import io
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch


def kept_openers() -> Iterator[tuple[dict[Any, Any], Any]]:
    """Where libraries keep the built-in `open` as a value: the dict and its key."""
    datasource = import_module("numpy.lib._datasource")
    openers = getattr(datasource, "_file_openers", None)
    if openers is not None:
        openers.keys()  # it fills itself when it is first asked
        table = getattr(openers, "_file_openers", {})
        yield from ((table, key) for key, value in table.items() if value is io.open)


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
