"""Hooks on the gradients of parameters, whether they are trained at the moment or not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import torch


def leaf_hook(parameter: torch.Tensor, hook: Callable[[torch.Tensor], None]) -> Callable[[], None]:
    """Register on a leaf that may have `requires_grad` off for the moment (GANs switch it to and fro)."""
    required = parameter.requires_grad
    if not required:
        parameter.requires_grad_(True)
    try:
        return parameter.register_hook(hook).remove  # type: ignore[no-any-return, no-untyped-call]
    finally:
        if not required:
            with suppress(RuntimeError):
                parameter.requires_grad_(False)
