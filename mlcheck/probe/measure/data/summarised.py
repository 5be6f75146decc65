"""Samples of any length as rows of one length: of numbers mean and spread over the sample, of ids how often each is in.

A batch may pad its samples to the longest, or lay them end to end: then a tensor beside says whose each row is, how
long each sample is, or where each begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

MOST_IDS = 4096
_FEWEST_IDS = 64
_MOST_FEATURES = 256


@dataclass(frozen=True, slots=True)
class Summary:
    """`rows` (samples, columns) of one tensor; the first `means` of the columns are means, behind them spreads."""

    rows: Tensor
    means: int


def samples_of(tensors: list[Tensor]) -> int:
    """How many samples a batch holds: the first dimension of most tensors, or as many as they say there are owners."""
    sizes = Counter(tensor.shape[0] for tensor in tensors if tensor.ndim)
    rows = sizes.most_common(1)[0][0] if sizes else 1
    owned = [int(one.max()) + 1 for one in tensors if one.numel() == rows and _tells_owners(one)]
    return next((count for count in owned if count < rows and count in sizes), rows)


def _tells_owners(one: Tensor) -> bool:
    """Numbers from 0 on, none left out, each as often as its sample has rows."""
    if one.ndim != 1 or one.dtype not in (torch.long, torch.int) or not one.numel():
        return False
    steps = one.diff()
    return int(one[0]) == 0 and bool(((steps == 0) | (steps == 1)).all())


def summary(tensor: Tensor, beside: Iterable[Tensor], samples: int, ids: int) -> Summary | None:
    """Of one tensor of a batch; `ids` is how many different ones there may be. None where it has no such samples."""
    counted = not tensor.is_floating_point()
    values, owner = tensor.detach().cpu(), _owner(tensor, beside, samples)
    if owner is None and len(values) == samples and values.ndim == (2 if counted else 3):
        owner = torch.arange(samples).repeat_interleave(values.shape[1])
        values = values.flatten(0, 1)
    if owner is None or values.ndim != (1 if counted else 2):
        return None
    if counted:
        return Summary(_shares(values, owner, samples, ids), 0) if tensor.dtype == torch.long else None
    return _moments(values.double().nan_to_num(0.0, 0.0, 0.0), owner, samples)


def _shares(values: Tensor, owner: Tensor, samples: int, ids: int) -> Tensor:
    """How large a part of each sample each id is."""
    width = max(_FEWEST_IDS, 1 << (ids - 1).bit_length())  # as many in each split, whichever ids it happens to hold
    counts = torch.bincount(owner * width + values, minlength=samples * width).view(samples, width)
    return counts / counts.sum(1, keepdim=True).clamp(min=1)


def _moments(values: Tensor, owner: Tensor, samples: int) -> Summary | None:
    if values.shape[1] > _MOST_FEATURES:
        return None
    means = _mean(values, owner, samples)
    spread = _mean((values - means[owner]).square(), owner, samples).sqrt()
    return Summary(torch.cat([means, spread], dim=1).float(), values.shape[1])


def _mean(flat: Tensor, owner: Tensor, samples: int) -> Tensor:
    counts = torch.bincount(owner, minlength=samples).clamp(min=1)[:, None]
    return torch.zeros(samples, flat.shape[1], dtype=flat.dtype).index_add_(0, owner, flat) / counts


def _owner(tensor: Tensor, beside: Iterable[Tensor], samples: int) -> Tensor | None:
    """The sample that each row is of, where samples lie end to end."""
    count = len(tensor)
    whole = [one.detach().cpu() for one in beside if one.ndim == 1 and one.dtype in (torch.long, torch.int)]
    for one in whole if count > samples else ():
        if len(one) == count and _tells_owners(one) and int(one[-1]) + 1 == samples:
            return one.long()
        if len(one) == samples and bool((one > 0).all()) and int(one.sum()) == count:
            return torch.arange(samples).repeat_interleave(one.long())
        if len(one) in (samples, samples + 1) and int(one[0]) == 0 and bool((one.diff() > 0).all()):
            if int(one[-1]) <= count:
                return torch.bucketize(torch.arange(count), one[1:samples].contiguous(), right=True)
    return None
