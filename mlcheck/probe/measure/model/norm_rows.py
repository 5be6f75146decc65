"""How many samples each batch norm normalises together in training steps, and how many numbers any other norm."""

from __future__ import annotations

import math
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
    """The most rows that each batch norm with running statistics got in one pass in training mode, in `steps` steps.

    `single` are group and layer norms that never had more than one number to normalise.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 6

    rows: tuple[tuple[str, int], ...]
    steps: int
    single: tuple[str, ...] = ()

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - three steps, whatever the limit
        names, most = Names(trial.models), dict[nn.Module, int]()

        def see(module: nn.Module, args: tuple[Any, ...]) -> None:
            if module.training and args and isinstance(args[0], Tensor) and args[0].ndim:
                together = len(args[0]) if isinstance(module, _BatchNorm) else _together(module, args[0])
                most[module] = max(most.get(module, 0), together)

        norms = [
            module
            for model in trial.models.values()
            for module in model.modules()
            if isinstance(module, nn.GroupNorm | nn.LayerNorm)
            or (isinstance(module, _BatchNorm) and module.track_running_stats)
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
        rows = tuple((names.module(one), many) for one, many in most.items() if isinstance(one, _BatchNorm))
        single = (one for one, many in most.items() if many == 1 and not isinstance(one, _BatchNorm))
        found = cls(rows, len(batches), tuple(map(names.module, single)))
        if not found.rows and not found.single:
            raise NotMeasured(_NONE)
        return found


def _together(norm: nn.Module, given: Tensor) -> int:
    """How many numbers are normalised by one mean and one variance."""
    if isinstance(norm, nn.GroupNorm):
        return given[0].numel() // norm.num_groups
    return math.prod(norm.normalized_shape) if isinstance(norm, nn.LayerNorm) else 0
