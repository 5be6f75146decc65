"""What a loss counts each class for."""

from __future__ import annotations

from typing import Any

import torch

_MOST = 1000


def class_weights(options: dict[str, Any]) -> tuple[float, ...]:
    """One number for each class, those of 0 and 1 for a `pos_weight`; empty where classes count alike or it is unknown.

    A `weight` of a loss of yes or no is one for each element and says nothing about classes.
    """
    weight, positive = options.get("weight"), options.get("pos_weight")
    if isinstance(positive, torch.Tensor) and positive.numel() == 1 and weight is None:
        return 1.0, float(positive)
    if "pos_weight" in options or "ignore_index" not in options or not isinstance(weight, torch.Tensor):
        return ()
    return tuple(weight.detach().flatten().tolist()) if weight.ndim == 1 and weight.numel() <= _MOST else ()
