"""What attention looks at and what its mask hides: places filled up are the same in every sample, data is not."""

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
from mlcheck.probe.measure.loss.losses import LossWatch
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.place import user_location
from mlcheck.probe.measure.simplified import stilled
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

_ATTENDING = {
    F.multi_head_attention_forward: ("query", "key"),
    F.scaled_dot_product_attention: ("query", "key", "value", "attn_mask"),
}
FEW_PLACES = 2
MOST_CALLS = 64
HIDDEN = -1e4  # libraries add the least number of a type instead of minus infinity
_NONE = "no attention of torch was given a mask that hides keys of some samples"


@dataclass(frozen=True, slots=True)
class KeyMask:
    """All calls of an attention at one place of the code, over `places` keys of `samples` samples.

    Of the places where two samples or more are looked at, in `seen_alike` these all have one and the same key; of those
    where two or more are hidden, in `hidden_alike`.
    """

    samples: int
    places: int
    seen: int
    seen_alike: int
    hidden: int
    hidden_alike: int
    place: Location


@dataclass(frozen=True, slots=True)
class KeyMasks:
    """The masks of keys in one training step, the first call at each place of the code."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 2

    calls: tuple[KeyMask, ...]

    @classmethod
    def absent(cls, called: frozenset[str]) -> str:
        return "" if called & {attending.__name__ for attending in _ATTENDING} else _NONE

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - one step, whatever the limit
        batch, watch = first_batches(trial, 1)[0], _Attention()
        with restored(trial), stilled(trial), LossWatch(keep_dropout=False), watch:
            trial.train_step(batch, 0)
        if not watch.found:
            raise NotMeasured(_NONE)
        return cls(tuple({call.place: call for call in reversed(watch.found)}.values()))


class _Attention(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[KeyMask] = []

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in _ATTENDING and len(self.found) < MOST_CALLS:
            given = dict(zip(_ATTENDING[func], args)) | (kwargs or {})
            with suppress(Exception):  # what it refuses is told by the program itself
                pair = _joint(given) if func is F.multi_head_attention_forward else _single(given)
                self.found += [mask] if pair is not None and (mask := _judged(*pair)) else []
        return func(*args, **(kwargs or {}))


def _joint(given: dict[str, Any]) -> tuple[Tensor, Tensor] | None:
    """Keys as (samples, places, numbers), and which of them are looked at; the mask says which are not."""
    key, mask = given["key"].detach(), given.get("key_padding_mask")
    if mask is None or key.ndim != 3:
        return None
    return key.transpose(0, 1), ~mask if mask.dtype == torch.bool else mask > HIDDEN


def _single(given: dict[str, Any]) -> tuple[Tensor, Tensor] | None:
    """The same where each head has its keys; the mask says which are looked at, by some place at least."""
    key, mask = given["key"].detach(), given.get("attn_mask")
    if mask is None or key.ndim != 4 or mask.ndim != 4 or len(mask) != len(key):
        return None
    seen = (mask if mask.dtype == torch.bool else mask > HIDDEN).flatten(1, 2).any(1)
    return key.transpose(1, 2).flatten(2), seen


def _judged(key: Tensor, seen: Tensor) -> KeyMask | None:
    if key.shape[:2] != seen.shape or len(key) < 2 or bool(seen.all()) or not bool(seen.any()):
        return None
    shown, shown_alike = _alike(key, seen)
    hidden, hidden_alike = _alike(key, ~seen)
    return KeyMask(len(key), key.shape[1], shown, shown_alike, hidden, hidden_alike, user_location())


def _alike(key: Tensor, chosen: Tensor) -> tuple[int, int]:
    """At how many places two samples or more are chosen, and at how many of these all have the same key."""
    places = [place for place in range(key.shape[1]) if int(chosen[:, place].sum()) > 1]
    rows = [key[chosen[:, place], place] for place in places]
    return len(places), sum(bool((one == one[0]).all()) for one in rows)
