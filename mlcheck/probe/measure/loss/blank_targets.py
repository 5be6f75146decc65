"""The targets of `ctc_loss`, and how many of them are the blank, which stands for no label at all."""

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
from mlcheck.probe.measure.place import user_location
from mlcheck.probe.measure.simplified import stilled
from mlcheck.trial.trial import Trial

_NONE = "no ctc_loss was computed"


@dataclass(frozen=True, slots=True)
class BlankTargets:
    """Of the first batch's targets that count, `blanks` are `blank`; padding behind a sample's own is left out."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 4

    blank: int
    blanks: int
    targets: int
    classes: int
    place: Location

    @classmethod
    def absent(cls, called: frozenset[str]) -> str:
        return "" if "ctc_loss" in called else _NONE

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - one step, whatever the limit
        watch = _Ctc()
        with stilled(trial), watch, suppress(Exception):  # the rehearsal tells of a step that raises
            trial.train_step(first_batches(trial, 1)[0], 0)
        if not watch.seen:
            raise NotMeasured(_NONE)
        targets, blank, classes, place = watch.seen[0]
        return cls(blank, int((targets == blank).sum()), targets.numel(), classes, place)


class _Ctc(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[Tensor, int, int, Location]] = []

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is F.ctc_loss:
            self._see(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def _see(
        self,
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Any,  # noqa: ARG002 - as torch.nn.functional.ctc_loss takes them
        target_lengths: Any,
        blank: int = 0,
        reduction: str = "mean",  # noqa: ARG002
        zero_infinity: bool = False,  # noqa: ARG002
    ) -> None:
        lengths = torch.as_tensor(target_lengths).reshape(-1).cpu()
        kept = targets.detach().cpu()
        if kept.ndim == 2:
            kept = kept[torch.arange(kept.shape[1]) < lengths.unsqueeze(1)]
        self.seen.append((kept[: int(lengths.sum())], blank, log_probs.shape[-1], user_location()))
