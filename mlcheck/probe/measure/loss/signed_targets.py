"""The targets of losses that tell two kinds by their sign: 1 for what belongs together or goes first, else -1."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.place import user_location
from mlcheck.probe.measure.simplified import stilled
from mlcheck.trial.trial import Trial

_LOSSES = {F.cosine_embedding_loss, F.margin_ranking_loss, F.hinge_embedding_loss, F.soft_margin_loss}
_BATCHES = 4
_NONE = "no loss was computed whose targets are 1 and -1"


@dataclass(frozen=True, slots=True)
class SignedTargets:
    """The different targets that the first of these losses got in a few steps."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 7

    kind: str
    values: tuple[float, ...]
    zeros: float
    place: Location

    @property
    def knows_no_sign(self) -> bool:
        """Ones and zeros: beside -1 a zero may well stand for neither."""
        return set(self.values) == {0.0, 1.0}

    @classmethod
    def absent(cls, called: frozenset[str]) -> str:
        return "" if called & {loss.__name__ for loss in _LOSSES} else _NONE

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few steps, whatever the limit
        watch = _Signed()
        with stilled(trial), watch, suppress(Exception):  # the rehearsal tells of a step that raises
            for index, batch in enumerate(first_batches(trial, _BATCHES)):
                trial.train_step(batch, index)
        if not watch.seen:
            raise NotMeasured(_NONE)
        kind, place, _ = watch.seen[0]
        targets = torch.cat([target for _, at, target in watch.seen if at == place])
        return cls(kind, tuple(sorted(set(targets.tolist()))), float((targets == 0).double().mean()), place)


class _Signed(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, Location, torch.Tensor]] = []

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in _LOSSES:
            target = inspect.signature(func).bind(*args, **(kwargs or {})).arguments["target"]
            self.seen.append((func.__name__, user_location(), target.detach().cpu().double().flatten()))
        return func(*args, **(kwargs or {}))
