"""Whether the masks of a data set lie over the pictures some places before or after them, and not over their own.

Samples are read in the order of the data set. How much of the pixels' variance a mask accounts for is compared with
what masks of pictures at random account for, with its own picture and with those up to three places away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

from mlcheck.probe.measure.data.alignment import flat, is_mask, share
from mlcheck.probe.measure.data.shifted import OFFSETS, Shift, by_offset

FEW = 60
MOST = 200
PAIRINGS = 30
_SIDE = 32
_SMALLEST = 8


def mask_shifts(
    samples: Sequence[Mapping[str, Tensor]], inputs: Sequence[str], targets: Sequence[str]
) -> Iterator[Shift]:
    """One for each mask that is a target; `samples` are consecutive ones of a data set, by the names of a batch."""
    samples = samples[:MOST]
    pictures = next(filter(None, (_pictures(samples, name) for name in inputs)), [])
    for name in targets if len(pictures) >= FEW else ():
        masks = _masks(samples, name, pictures[0].shape[1:])
        if masks:
            yield _shift(name, [_small(picture).double() for picture in pictures], [_small(mask) for mask in masks])


def _pictures(samples: Sequence[Mapping[str, Tensor]], name: str) -> list[Tensor]:
    """(channels, height, width) each, all of one size; none otherwise."""
    found = [sample[name] for sample in samples if name in sample]
    one = found[0] if found else torch.empty(0)
    alike = len(found) == len(samples) and len({picture.shape for picture in found}) == 1
    fits = one.ndim == 3 and min(one.shape[1:]) >= _SMALLEST and one.is_floating_point()
    return [picture.nan_to_num(0.0, 0.0, 0.0) for picture in found] if alike and fits else []


def _masks(samples: Sequence[Mapping[str, Tensor]], name: str, size: torch.Size) -> list[Tensor]:
    found = [flat(sample[name][None])[0] for sample in samples if name in sample and sample[name].ndim > 1]
    fits = len(found) == len(samples) and all(mask.shape == size and is_mask(mask) for mask in found)
    return found if fits else []


def _small(tensor: Tensor) -> Tensor:
    step = max(1, min(tensor.shape[-2:]) // _SIDE)
    return tensor[..., ::step, ::step].contiguous()


def _shift(name: str, pictures: list[Tensor], masks: list[Tensor]) -> Shift:
    def mean_share(pairs: Callable[[int], int]) -> float:
        return sum(share(picture, masks[pairs(i)]) for i, picture in enumerate(pictures)) / len(pictures)

    generator, count = torch.Generator().manual_seed(0), len(pictures)
    orders = [torch.randperm(count, generator=generator).tolist() for _ in range(PAIRINGS)]
    chance = torch.tensor([mean_share(order.__getitem__) for order in orders], dtype=torch.float64)
    spread = float(chance.std().clamp_min(1e-12))
    scores = {
        offset: (mean_share(lambda i, offset=offset: (i + offset) % count) - float(chance.mean())) / spread  # type: ignore[misc]
        for offset in OFFSETS
    }
    return by_offset(name, count, scores)
