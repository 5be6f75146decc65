"""Causal masks the wrong way round: attention that is shown later places and no earlier ones."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.model.key_masks import HIDDEN
from mlcheck.probe.measure.place import user_location
from mlcheck.probe.measure.simplified import stilled
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

_ATTENDING = (F.multi_head_attention_forward, F.scaled_dot_product_attention)
_NONE = "no attention of torch was given a mask that hides all earlier places and shows all later ones"
_FEW = 3


@dataclass(frozen=True, slots=True)
class UpturnedMask:
    """The first such call in a training step, of `places` places."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 2

    places: int
    place: Location

    @classmethod
    def absent(cls, called: frozenset[str]) -> str:
        return "" if called & {attending.__name__ for attending in _ATTENDING} else _NONE

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - one step, whatever the limit
        batch, watch = first_batches(trial, 1)[0], _Attention()
        with restored(trial), stilled(trial), watch:
            trial.train_step(batch, 0)
        if not watch.found:
            raise NotMeasured(_NONE)
        return cls(*watch.found[0])


class _Attention(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[int, Location]] = []

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in _ATTENDING and not self.found:
            mask = (kwargs or {}).get("attn_mask", args[3] if func is _ATTENDING[1] and len(args) > 3 else None)
            with suppress(Exception):  # what it refuses is told by the program itself
                if isinstance(mask, Tensor) and _is_upturned(_seen(mask, func)):
                    self.found.append((mask.shape[-1], user_location()))
        return func(*args, **(kwargs or {}))


def _seen(mask: Tensor, func: Any) -> Tensor:
    if mask.dtype != torch.bool:
        return mask > HIDDEN
    return ~mask if func is F.multi_head_attention_forward else mask


def _is_upturned(seen: Tensor) -> bool:
    """Of each square: nothing below the diagonal, all above it, whatever is on it."""
    rows, columns = seen.shape[-2:]
    if rows != columns or rows < _FEW:
        return False
    later = torch.ones(rows, columns, dtype=torch.bool, device=seen.device).triu(1)
    return bool(seen[..., later].all()) and not bool(seen[..., later.T].any())
