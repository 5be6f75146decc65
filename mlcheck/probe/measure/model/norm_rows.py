"""How many samples each batch norm normalises together in training steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.modules import Names
from mlcheck.probe.measure.simplified import stilled
from mlcheck.trial.generators import seed_all
from mlcheck.trial.trial import Trial

BATCHES = 3
_NONE = "no batch norm with running statistics ran in training mode"


@dataclass(frozen=True, slots=True)
class NormRows:
    """The most rows that each batch norm with running statistics got in one pass in training mode, in `steps` steps."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 6

    rows: tuple[tuple[str, int], ...]
    steps: int

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - three steps, whatever the limit
        names, most = Names(trial.models), dict[nn.Module, int]()

        def see(module: nn.Module, args: tuple[Any, ...]) -> None:
            if module.training and args and isinstance(args[0], Tensor):
                most[module] = max(most.get(module, 0), len(args[0]))

        norms = [
            module
            for model in trial.models.values()
            for module in model.modules()
            if isinstance(module, _BatchNorm) and module.track_running_stats
        ]
        if not norms:
            raise NotMeasured(_NONE)
        hooks = [module.register_forward_pre_hook(see) for module in dict.fromkeys(norms)]
        try:
            with stilled(trial):
                seed_all(0)
                batches = first_batches(trial, BATCHES)
                for index, batch in enumerate(batches):
                    trial.train_step(batch, index)
        finally:
            for hook in hooks:
                hook.remove()
        if not most:
            raise NotMeasured(_NONE)
        return cls(tuple((names.module(module), rows) for module, rows in most.items()), len(batches))
