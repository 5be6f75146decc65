"""Whether samples that are equal can be so by chance, as rows of a few codes are."""

from __future__ import annotations

import torch
from torch import Tensor

from mlcheck.probe.measure.data.split import Split

_FEW = 50
_NEARLY_ALL = 0.9
_MOST_COLUMNS = 512


def are_told_apart(split: Split) -> bool:
    """Whether some one number has another value in nearly every different sample, so that none are equal by chance.

    The samples that repeat must not be those where it stops at a bound, as ratings do that are cut off at 5.
    """
    kept = [tensor.flatten() for tensor in split.kept.values()]
    if not split.continuous or len({len(tensor) for tensor in kept}) != 1:
        return False
    rows = torch.stack(kept)[:, :_MOST_COLUMNS]
    if not rows.is_floating_point() or bool((rows == rows.round()).all()):
        return False  # codes and counts, as of users: what else a sample holds was not kept
    different, times = torch.unique(rows, dim=0, return_counts=True)
    again = different[times > 1]
    return len(different) >= _FEW and any(
        _is_each_its_own(column, repeats) for column, repeats in zip(different.T, again.T, strict=True)
    )


def _is_each_its_own(column: Tensor, repeats: Tensor) -> bool:
    values, holders = torch.unique(column, return_counts=True)
    if len(values) < _NEARLY_ALL * len(column) or not len(repeats):
        return False
    return bool((holders[torch.searchsorted(values, repeats.contiguous())] == 1).float().mean() >= _NEARLY_ALL)
