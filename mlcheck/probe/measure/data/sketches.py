"""A sample in a few numbers that survive another encoding, brightness or a little noise: what near duplicates share."""

from __future__ import annotations

import math
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

SIDE = 8
FEW = 6
MOST = 192
_SMALLEST_PICTURE = 8


def sketch(sample: Tensor) -> Tensor | None:
    """At most 192 numbers; None for ids and for what holds too few numbers to tell samples apart.

    A picture is shrunk to 8 x 8 a channel, and its mean and contrast are taken out. Anything else is projected at
    random where it is long (Johnson and Lindenstrauss: distances keep their order).
    """
    if sample.is_complex() or sample.layout is not torch.strided or sample.dtype in (torch.int64, torch.bool):
        return None
    values = sample.detach().cpu().float().nan_to_num(0.0, 0.0, 0.0)
    picture = channels_first(values)
    if picture is not None:
        small = F.adaptive_avg_pool2d(picture[None], SIDE)[0].flatten()
        spread = small.std(correction=0)
        flat = float(spread) <= 1e-3 * float(small.abs().max() + 1e-12)
        return None if flat else (small - small.mean()) / spread
    flat_values = values.flatten()
    if flat_values.numel() < FEW:
        return None
    return flat_values if flat_values.numel() <= MOST else flat_values @ _projection(flat_values.numel())


def channels_first(values: Tensor) -> Tensor | None:
    """A picture as (channels, height, width), at most three channels; None where it is none."""
    if values.ndim == 2 and min(values.shape) >= _SMALLEST_PICTURE:
        return values[None]
    if values.ndim != 3:
        return None
    if values.shape[0] <= 4 and min(values.shape[1:]) >= _SMALLEST_PICTURE:
        return values[:3]
    if values.shape[2] <= 4 and min(values.shape[:2]) >= _SMALLEST_PICTURE:
        return values.permute(2, 0, 1)[:3]
    return None


@cache
def _projection(length: int) -> Tensor:
    return torch.randn(length, MOST, generator=torch.Generator().manual_seed(0)) / math.sqrt(MOST)
