"""Masks that lie over their pictures, beside them, or tell nothing of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, says, trial_on
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial


def boxes(count: int = 96, side: int = 16) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    place = torch.arange(side)
    corner, size = torch.randint(0, 9, (count, 2), generator=generator), torch.tensor([3, 6])
    rows, columns = ((place >= c[:, None]) & (place < c[:, None] + s) for c, s in zip(corner.T, size))
    mask = (rows[:, :, None] & columns[:, None, :]).long()
    return mask[:, None] + 0.3 * torch.randn(count, 3, side, side, generator=generator), mask


def segmentation(picture: Tensor, mask: Tensor) -> Trial:
    model = nn.Conv2d(3, 2, 3, padding=1)
    return trial_on(TensorDataset(picture, mask), model=model, loss=lambda m, b: F.cross_entropy(m(b[0]), b[1].long()))


@pytest.mark.parametrize(
    ("move", "said"),
    [
        (lambda mask: mask.transpose(1, 2), "transposed"),
        (lambda mask: mask.flip(2), "flipped left to right"),
        (lambda mask: mask.flip(1, 2), "turned by 180 degrees"),
    ],
)
def test_masks_that_were_moved_and_their_pictures_not(move: Callable[[Tensor], Tensor], said: str) -> None:
    picture, mask = boxes()
    says(ask("mask-misaligned", segmentation(picture, move(mask).contiguous())), Outcome.WARN, said, "samples")


@pytest.mark.parametrize("kind", [torch.Tensor.long, torch.Tensor.float])
def test_pictures_that_are_flipped_now_and_then_without_their_masks(kind: Callable[[Tensor], Tensor]) -> None:
    picture, mask = boxes()
    picture[::3] = picture[::3].flip(-1)
    verdict = ask("mask-misaligned", segmentation(picture, kind(mask)))
    says(verdict, Outcome.WARN, "only when it is flipped left to right", "only as it is")


def test_masks_that_fit_little_either_way_are_not_taken_for_flipped_ones() -> None:
    picture, mask = boxes()
    weak = 0.15 * mask[:, None] + torch.randn(len(mask), 3, 1, 16).cumsum(-1) * 0.1 + 0.1 * torch.randn(picture.shape)
    verdict = ask("mask-misaligned", segmentation(weak, mask))
    assert verdict.outcome is not Outcome.WARN, verdict


def test_masks_over_their_pictures() -> None:
    says(ask("mask-misaligned", segmentation(*boxes())), Outcome.PASS, "as they are")


def test_masks_of_what_no_colour_shows() -> None:
    picture, mask = boxes()
    says(ask("mask-misaligned", segmentation(torch.randn(picture.shape), mask)), Outcome.INCONCLUSIVE, "too little")


def test_few_masks_decide_nothing() -> None:
    picture, mask = boxes(20)
    says(
        ask("mask-misaligned", segmentation(picture, mask.transpose(1, 2))), Outcome.INCONCLUSIVE, "too few masks", "20"
    )


@pytest.mark.parametrize(("places", "where"), [(1, "the sample before it"), (-2, "2 samples after it")])
@pytest.mark.parametrize("kind", [torch.Tensor.long, lambda mask: mask[:, None].float()])
def test_masks_of_the_pictures_beside_theirs(places: int, where: str, kind: Callable[[Tensor], Tensor]) -> None:
    picture, mask = boxes()
    trial = paired(picture, kind(mask.roll(places, 0)))
    says(ask("mask-misaligned", trial), Outcome.WARN, "is shifted against the pictures", where)


def paired(picture: Tensor, mask: Tensor) -> Trial:
    """The loss takes classes, or shares of one."""
    if not mask.is_floating_point():
        return segmentation(picture, mask)
    model = nn.Conv2d(3, 1, 3, padding=1)
    data = TensorDataset(picture, mask)
    return trial_on(data, model=model, loss=lambda m, b: F.binary_cross_entropy_with_logits(m(b[0]), b[1]))


def test_masks_of_pictures_that_follow_one_another_fit_their_neighbours_too() -> None:
    """Frames of a film: an object that moves by a pixel now and then."""
    place, corner = torch.arange(16), torch.arange(96) // 12
    mask = ((place >= corner[:, None]) & (place < corner[:, None] + 6)).long()[:, :, None].expand(-1, 16, 16)
    picture = mask[:, None] + 0.3 * torch.randn(96, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    says(ask("mask-misaligned", segmentation(picture, mask.contiguous())), Outcome.PASS, "as they are")


def test_masks_in_another_order_than_their_pictures_fit_none_for_certain() -> None:
    picture, mask = boxes()
    order = torch.randperm(len(mask), generator=torch.Generator().manual_seed(1))
    assert ask("mask-misaligned", segmentation(picture, mask[order])).outcome is not Outcome.WARN
