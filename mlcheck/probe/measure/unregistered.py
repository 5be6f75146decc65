"""Parameters that no model has registered: where one keeps them, or that it makes them anew in every step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import nn

from mlcheck.trial.trial import Trial


@dataclass(frozen=True, slots=True)
class Fleeting:
    """`count` parameters a step, of modules of these `kinds`, that live for that step alone."""

    count: int
    kinds: tuple[str, ...]


def made_anew(met: list[tuple[torch.Tensor, int]], backwards: int, ran: Iterable[nn.Module]) -> Fleeting | None:
    """Where every one of these parameters was met in one backward pass of several, and as many in each."""
    if backwards < 2 or len(met) < backwards or len(met) % backwards or any(times > 1 for _, times in met):
        return None
    leaves = {id(leaf) for leaf, _ in met}
    owners = [type(module).__name__ for module in ran if any(id(p) in leaves for p in module.parameters(recurse=False))]
    return Fleeting(len(met) // backwards, tuple(sorted(set(owners))))


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
