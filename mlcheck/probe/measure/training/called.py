"""What one training step calls of torch: a look that spares those at what this program does not have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch.overrides import TorchFunctionMode

from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import Reach
from mlcheck.probe.measure.simplified import replaced, stilled
from mlcheck.trial.half_precision import recorded_autocast
from mlcheck.trial.trial import Trial

AUTOCAST, SCALER, FLOAT16 = "autocast", "GradScaler", "float16"


@dataclass(frozen=True, slots=True)
class Called:
    """The names of the functions and methods (`ctc_loss`, `__matmul__`), `autocast` and `GradScaler` among them, and
    `float16` where the program itself makes such values, without autocast.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 1

    names: frozenset[str]

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - one step, whatever the limit
        watch, scaler = _Names(), torch.amp.GradScaler
        stepping = replaced(scaler, "step", watch.noting(SCALER, scaler.step))
        with stilled(trial), recorded_autocast(act_out=False) as requests, stepping, watch:
            trial.train_step(first_batches(trial, 1)[0], 0)
        asked = {AUTOCAST: requests.dtypes, SCALER: requests.scales}
        return cls(frozenset(watch.seen | {name for name, wanted in asked.items() if wanted}))


class _Names(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def noting(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any, **kwargs: Any) -> Any:
            self.seen.add(name)
            return method(*args, **kwargs)

        return noted

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.seen.add(getattr(func, "__name__", ""))
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.dtype is torch.float16:
            self.seen.add(FLOAT16)
        return result
