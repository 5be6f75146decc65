"""In which order a program gives the samples of a batch to its model: sorted by length, say, and no longer as drawn."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from mlcheck.probe.measure.modules import ModelCall
from mlcheck.probe.measure.tree import leaves


def order_given(batch: Any, calls: Iterable[ModelCall]) -> Tensor | None:
    """The sample in each row of what the models were given; None where they stand as in the batch, or none is known."""
    given = [tensor for call in calls for _, tensor in leaves((call.args, call.kwargs)) if tensor.ndim > 1]
    pairs = [(leaf, tensor) for _, leaf in leaves(batch) if leaf.ndim > 1 for tensor in given]
    orders = [order for leaf, tensor in pairs if (order := _order(leaf, tensor)) is not None]
    if not orders or any(torch.equal(order, torch.arange(len(order))) for order in orders):
        return None
    return orders[0]


def _order(batch: Tensor, given: Tensor) -> Tensor | None:
    """Which row of the batch each row is, of equal ones the next; None unless the two hold the same rows."""
    if batch.shape != given.shape or batch.dtype != given.dtype:
        return None
    places: dict[bytes, list[int]] = {}
    for place, row in enumerate(_rows(batch)):
        places.setdefault(row, []).append(place)
    try:
        return torch.tensor([places[row].pop(0) for row in _rows(given)])
    except (KeyError, IndexError):
        return None


def _rows(tensor: Tensor) -> list[bytes]:
    return [row.tobytes() for row in tensor.detach().cpu().contiguous().flatten(1).view(torch.uint8).numpy()]
