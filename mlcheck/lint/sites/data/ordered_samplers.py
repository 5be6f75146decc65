"""Samplers that go through the data in order, by themselves or inside a sampler of batches."""

from __future__ import annotations

import ast

from mlcheck.lint.sites.data.loaders import Loader
from mlcheck.lint.sites.model import OPEN, Call
from mlcheck.lint.sites.origins import Origin, origins


def goes_in_order(loader: Loader) -> bool:
    """Whether the sampler is a `SequentialSampler` whatever happens, or that of the `BatchSampler`."""
    found = _given(loader.call, "sampler", 3)
    for batches in _given(loader.call, "batch_sampler", 4):
        if not batches.name.endswith(".BatchSampler") or not isinstance(batches.node, ast.Call):
            return False
        found += _given(Call(batches.file, batches.node, batches.context), "sampler", 0)
    return bool(found) and all(origin.name.endswith(".SequentialSampler") for origin in found)


def _given(call: Call, name: str, position: int) -> list[Origin]:
    given = call.argument(name, position)
    return origins(call.file, given, call.context) if given is not None and given is not OPEN else []
