"""What has to move with its picture, told from what the data says and not from its name."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from mlcheck.probe.measure.data.flips import Flips
from mlcheck.probe.measure.data.mirrored import told_by_mirror

Read = tuple[Tensor, Tensor]
SIDE = 12


def scene(g: torch.Generator) -> Read:
    """A bright rectangle in noise, and its mask."""
    mask = torch.zeros(1, SIDE, SIDE)
    row, column, height, width = (int(torch.randint(1, 6, (), generator=g)) for _ in range(4))
    mask[0, row : row + height, column : column + width + 1] = 1.0
    return mask + 0.2 * torch.randn(1, SIDE, SIDE, generator=g), mask


def both(picture: Tensor, mask: Tensor, across: bool, down: bool, _: bool) -> Read:
    dims = [-1] * across + [-2] * down
    return picture.flip(dims), mask.flip(dims)


def down_alone(picture: Tensor, mask: Tensor, across: bool, down: bool, _: bool) -> Read:
    return picture.flip([-1] * across + [-2] * down), mask.flip([-1] * across)


def other_axis(picture: Tensor, mask: Tensor, across: bool, down: bool, _: bool) -> Read:
    return picture.flip([-1] * across), mask.flip([-2] * across)


def views(picture: Tensor, mask: Tensor, across: bool, _: bool, other: bool) -> Read:
    """Each is flipped on its own, as the two views of contrastive learning are."""
    return picture.flip([-1] * across), mask.flip([-1] * other)


def noisy(picture: Tensor, mask: Tensor, across: bool, _: bool, other: bool) -> Read:
    return picture.flip([-1] * across), mask.flip([-1] * across) + 0.01 * other


def stays(picture: Tensor, mask: Tensor, *_: bool) -> Read:
    return picture, mask


@pytest.mark.parametrize(
    ("augment", "astray", "left"),
    [
        (both, False, False),
        (down_alone, True, False),
        (other_axis, False, False),  # nothing shows that the two belong together
        (views, False, False),
        (noisy, False, False),
        (stays, False, False),
        (lambda picture, mask, across, *_: (picture.flip([-1] * across), mask), False, True),
    ],
)
def test_masks_that_do_not_follow_their_picture(augment: Callable[..., Read], astray: bool, left: bool) -> None:
    g, flips = torch.Generator().manual_seed(3), Flips()
    for _ in range(40):
        first = second = scene(g)
        draws = (torch.rand(6, generator=g) < 0.5).tolist()
        first, second = augment(*first, *draws[:3]), augment(*second, *draws[3:])
        flips.compare([("image", first[0]), ("mask", first[1])], [("image", second[0]), ("mask", second[1])])
    assert bool([told for told in flips.led_astray() if told[0] == "mask"]) is astray
    assert bool([told for told in flips.left_behind() if told[0] == "mask"]) is left


def test_a_symmetric_mask_says_nothing() -> None:
    g, flips = torch.Generator().manual_seed(3), Flips()
    mask = torch.zeros(1, SIDE, SIDE)
    mask[0, 4:8, 4:8] = 1.0
    for _ in range(10):
        picture = torch.randn(1, SIDE, SIDE, generator=g)
        flips.compare([("image", picture), ("mask", mask)], [("image", picture.flip(-1)), ("mask", mask)])
    assert not list(flips.left_behind())
    assert not list(flips.led_astray())


@pytest.mark.parametrize(
    ("target", "told"),
    [
        (lambda centre, size, _: torch.stack([size, centre], 1), True),
        (lambda centre, size, _: centre * SIDE, True),  # pixels, one number a sample
        (lambda centre, size, _: torch.stack([size, 2 * size], 1), False),
        (lambda centre, size, _: (centre - 0.5).abs(), False),
        (lambda centre, size, noise: noise, False),
        (lambda centre, size, noise: centre + 3 * noise, False),
        (lambda centre, size, _: torch.ones_like(size), False),
    ],
)
def test_a_place_is_told_by_the_mirrored_difference(target: Callable[..., Tensor], told: bool) -> None:
    g = torch.Generator().manual_seed(1)
    left, size = torch.randint(0, 8, (120,), generator=g), torch.randint(2, 5, (120,), generator=g)
    pictures = 0.2 * torch.randn(120, 1, SIDE, SIDE, generator=g)
    for picture, start, wide in zip(pictures, left.tolist(), size.tolist()):
        picture[0, 3:8, start : start + wide] += 1.0
    values = target((left + size / 2) / SIDE, size / SIDE, torch.randn(120, generator=g))
    place = told_by_mirror([{"x": pictures, "y": values}], "x", "y", "flipped left to right")
    assert place is not None
    assert (place.share > 0.5) is told, place


def test_a_few_pictures_tell_nothing() -> None:
    batch = {"x": torch.randn(20, 1, SIDE, SIDE), "y": torch.randn(20, 2)}
    assert told_by_mirror([batch], "x", "y", "flipped upside down") is None
    assert told_by_mirror([{"x": torch.randn(80, 5), "y": torch.randn(80)}], "x", "y", "flipped upside down") is None
