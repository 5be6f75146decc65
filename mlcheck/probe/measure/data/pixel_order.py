"""Whether pictures read smoother in another order of their numbers: as height x width x channels.

In a picture neighbours resemble each other. Where `reshape` or `view` stood in for `permute`, the rows of a channel are
made of all channels in turn, and neighbours resemble each other in the old order only. A flip that follows is undone
first.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

FEW_SAMPLES = 16
FEW_PIXELS = 8


@dataclass(frozen=True, slots=True)
class PixelOrder:
    """The mean squared difference of neighbouring pixels over twice their variance: 0 for flat, 1 for noise.

    `given` is that of the tensor as it is, `interleaved` that of its numbers as height x width x channels; `share`
    of the `samples` are smoother so.
    """

    given: float
    interleaved: float
    share: float
    samples: int


def pixel_order(batches: list[Tensor]) -> PixelOrder | None:
    """Of (samples, channels, height, width); None for one channel, few or tiny samples, or nothing that varies."""
    shapes = {tuple(batch.shape[1:]) for batch in batches}
    channels, height, width = next(iter(shapes)) if len(shapes) == 1 and batches[0].ndim == 4 else (1, 0, 0)
    pictures = torch.cat(batches).double().nan_to_num(0.0, 0.0, 0.0) if channels in (2, 3, 4) else torch.empty(0)
    if len(pictures) < FEW_SAMPLES or min(height, width) < FEW_PIXELS:
        return None
    given = _roughness(pictures)
    flipped = [pictures.flip(dims) for dims in ((), (3,), (2,), (2, 3))]  # as an augmentation may have left them
    orders = [one.reshape(-1, height, width, channels).movedim(3, 1) for one in flipped]
    interleaved = torch.stack([_roughness(one) for one in orders]).amin(0)
    varied = given.isfinite() & interleaved.isfinite()
    if int(varied.sum()) < FEW_SAMPLES:
        return None
    given, interleaved = given[varied], interleaved[varied]
    smoother = float((interleaved < given).double().mean())
    return PixelOrder(float(given.mean()), float(interleaved.mean()), smoother, len(given))


def _roughness(pictures: Tensor) -> Tensor:
    """Of each sample, over all channels; infinite where nothing varies."""
    across = (pictures[..., 1:] - pictures[..., :-1]).pow(2).mean((1, 2, 3))
    down = (pictures[..., 1:, :] - pictures[..., :-1, :]).pow(2).mean((1, 2, 3))
    variance = pictures.var((2, 3), correction=0).mean(1)
    return (across + down) / (4 * variance)
