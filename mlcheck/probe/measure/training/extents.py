"""How large gradients are and whether they hold anything: taken without waiting, read all at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

Extent = tuple[torch.Tensor, torch.Tensor]


def extent_of(gradient: torch.Tensor) -> Extent | None:
    """The smallest and the largest element, not read yet; None where there are none. One pass, without temporaries."""
    values = gradient.detach() if gradient.requires_grad else gradient
    if values.is_sparse:
        values = values.coalesce().values()
    if values.is_complex():
        values = torch.view_as_real(values)
    return torch.aminmax(values) if values.numel() else None


@torch.no_grad()
def extents_of(gradients: Sequence[torch.Tensor | None]) -> list[Extent | None]:
    """Of those on a device all at once, which costs it one call: the largest magnitude for either end."""
    plain = {
        i: one for i, one in enumerate(gradients) if one is not None and one.device.type != "cpu" and _is_plain(one)
    }
    norms = dict(zip(plain, torch._foreach_norm(list(plain.values()), math.inf), strict=True)) if plain else {}
    return [
        (norms[index], norms[index]) if index in norms else None if one is None else extent_of(one)
        for index, one in enumerate(gradients)
    ]


@torch.no_grad()
def moved(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> list[bool]:
    """Whether the two of each pair differ. NaN is not equal to itself."""
    if all(now.device.type == "cpu" for now, _ in pairs):
        return [not torch.equal(now, before) for now, before in pairs]
    differences = extents_of([now - before for now, before in pairs])  # to compare each would wait for each
    return [magnitude != 0 for magnitude in magnitudes(differences)]


def magnitudes(extents: Sequence[Extent | None]) -> list[float]:
    """The largest elements by magnitude, infinite where one is no number, 0 where there are none."""
    known = [extent for extent in extents if extent]
    if not known:
        return [0.0] * len(extents)
    smallest, largest = (_together([extent[end] for extent in known]) for end in (0, 1))
    found = iter(torch.maximum(-smallest, largest).nan_to_num(nan=math.inf, posinf=math.inf).tolist())
    return [next(found) if extent else 0.0 for extent in extents]


@torch.no_grad()
def filled(gradients: list[torch.Tensor | None]) -> list[bool]:
    """Which gradients hold anything but zeros; NaN counts as something.

    A largest element other than 0 settles it, and comes at a third of what both ends cost.
    """
    plain = {index: one for index, one in enumerate(gradients) if one is not None and _is_plain(one)}
    ends = _together(torch._foreach_max(list(plain.values()))).tolist() if plain else []
    largest = dict(zip(plain, ends, strict=True))
    unsettled = [None if largest.get(index) else one for index, one in enumerate(gradients)]
    extents = magnitudes([None if one is None else extent_of(one) for one in unsettled])
    return [bool(largest.get(index)) or extent > 0 for index, extent in enumerate(extents)]


def _is_plain(gradient: torch.Tensor) -> bool:
    return not (gradient.is_sparse or gradient.is_complex()) and gradient.numel() > 0


def _together(numbers: Sequence[torch.Tensor]) -> torch.Tensor:
    """As one tensor: to wait for each by itself would cost a small model more than its step."""
    try:
        return torch.stack(tuple(numbers))
    except RuntimeError:  # on several devices
        return torch.stack([number.cpu() for number in numbers])
