"""Which places of a tensor a mask picked: a loss is often given these alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

_BY_MASK = {Tensor.__getitem__, Tensor.masked_select, torch.masked_select}


class PickedPlaces(TorchFunctionMode):
    """While entered, keeps what masks picked from integers, and the masks."""

    def __init__(self) -> None:
        super().__init__()
        self._picked: list[tuple[Tensor, Tensor]] = []

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in _BY_MASK and len(args) == 2 and _picks(*args):
            self._picked.append((result.detach().clone(), args[1].detach().clone()))
        return result

    def put_back(self, tensor: Tensor, nothing: int = -1) -> Tensor:
        """The tensor in the places that it was picked from, beside `nothing`; as it is where no mask picked it."""
        for result, mask in self._picked:
            if torch.equal(result, tensor):
                return torch.full_like(mask, nothing, dtype=tensor.dtype).masked_scatter(mask, tensor)
        return tensor


def _picks(tensor: Any, mask: Any) -> bool:
    integers = isinstance(tensor, Tensor) and not tensor.is_floating_point()
    return integers and isinstance(mask, Tensor) and mask.dtype is torch.bool and mask.shape == tensor.shape
