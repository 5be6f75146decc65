"""Where a model keeps a parameter that it has not registered."""

from __future__ import annotations

import torch
from torch import nn

from mlcheck.trial.trial import Trial


def where_kept(leaf: torch.Tensor, trial: Trial) -> str:
    """`blocks.0.weight`, where a module of the model keeps it in a plain list, dict or attribute."""
    for model in trial.models.values():
        for prefix, owner in model.named_modules():
            for attribute, value in vars(owner).items():
                if attribute.startswith("_"):
                    continue
                found = _search(value, leaf, attribute, 3)
                if found:
                    return f"{prefix}.{found}" if prefix else found
    return ""


def _search(value: object, leaf: torch.Tensor, path: str, depth: int) -> str:
    if value is leaf:
        return path
    if isinstance(value, nn.Module):
        return next((f"{path}.{name}" for name, p in value.named_parameters() if p is leaf), "")
    if depth and isinstance(value, (list, tuple)):
        return next((found for i, v in enumerate(value) if (found := _search(v, leaf, f"{path}[{i}]", depth - 1))), "")
    if depth and isinstance(value, dict):
        return next((f for k, v in value.items() if (f := _search(v, leaf, f"{path}[{k!r}]", depth - 1))), "")
    return ""
