"""Passes in which what is drawn at random is the same for every sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from mlcheck.probe.measure.tree import leaves


class NoNoise(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While entered, every random number is a half, and every random integer 0."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        drawn = func(*args, **(kwargs or {}))
        if torch.Tag.nondeterministic_seeded in func.tags:
            for _, tensor in leaves(drawn):
                tensor.fill_(0.5 if tensor.is_floating_point() else 0)
        return drawn
