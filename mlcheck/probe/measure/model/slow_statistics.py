"""What is left of the values that batch norm's running statistics are made with when the planned run ends."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from mlcheck.core.plural import plural
from mlcheck.probe.measure.drive import first_batches, length_of
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.model.wiring import is_unfilled
from mlcheck.probe.measure.modules import Names
from mlcheck.trial.planned import planned_in
from mlcheck.trial.trial import Trial

SLOW = 0.01


@dataclass(frozen=True, slots=True)
class SlowStatistics:
    """Fresh batch norms of low momentum that learn in a step: their names, momenta and what is `left` at the end.

    The run is `batches` long, as `source` says.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 2

    norms: tuple[tuple[str, float, float], ...]
    batches: int
    source: str

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - one step, whatever the limit
        modules = [module for model in trial.models.values() for module in model.modules()]
        slow = {
            module: module.momentum
            for module in modules
            if isinstance(module, _BatchNorm) and module.momentum and module.momentum < SLOW and is_unfilled(module)
        }
        if not slow:
            raise NotMeasured(f"no new batch norm has a momentum below {SLOW:g}")
        planned = trial.planned or planned_in(trial.objects)
        batches = planned.batches(length_of(trial.loaders.get("training")) or None) if planned else None
        if planned is None or batches is None:
            raise NotMeasured("how many batches the run is planned to have is not known")
        learns: Counter[nn.Module] = Counter()

        def entered(norm: nn.Module, _: tuple[Any, ...]) -> None:
            learns[norm] += norm.training

        with ExitStack() as hooks:
            for norm in slow:
                hooks.callback(norm.register_forward_pre_hook(entered).remove)
            trial.train_step(first_batches(trial, 1)[0], 0)
        names = Names(trial.models)
        norms = tuple(
            (names.module(norm), momentum, (1.0 - momentum) ** (learns[norm] * batches))
            for norm, momentum in slow.items()
            if learns[norm]
        )
        return cls(norms, batches, f"{plural(batches, 'batch')} ({planned.source})")
