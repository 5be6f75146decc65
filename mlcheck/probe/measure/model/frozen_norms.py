"""Normalisation layers that are frozen with what is around them, and whose running statistics move all the same."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, Self

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from mlcheck.probe.measure.drive import repeated_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.modules import ModuleWatch
from mlcheck.trial.trial import Trial

_STEPS = 2


@dataclass(frozen=True, slots=True)
class FrozenNorms:
    """Frozen batch norms by name, of models that are trained in other parts: those that moved and those that did not.

    Averaged copies and teachers are frozen as a whole, and left out.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 33

    moved: tuple[str, ...]
    still: tuple[str, ...]

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - two steps, whatever the limit
        frozen = {norm: name for model in trial.models.values() for name, norm in _frozen(model)}
        if not frozen:
            raise NotMeasured("no batch norm is frozen in a model that is trained")
        before = {norm: _mean(norm).clone() for norm in frozen}
        ran = ModuleWatch()
        with ran:
            for index, batch in enumerate(islice(repeated_batches(trial), _STEPS)):
                trial.train_step(batch, index)
        called = {call.module for call in ran.modal if call.training}
        moved = [name for norm, name in frozen.items() if norm in called and not torch.equal(_mean(norm), before[norm])]
        return cls(tuple(moved), tuple(name for name in frozen.values() if name not in moved))


def _frozen(model: nn.Module) -> list[tuple[str, _BatchNorm]]:
    """Batch norms whose weights are frozen and whose parents train nothing else either."""
    if not any(parameter.requires_grad for parameter in model.parameters()):
        return []
    found = []
    for path, module in model.named_modules():
        parent = model.get_submodule(path.rpartition(".")[0]) if path else model
        fixed = not any(parameter.requires_grad for parameter in parent.parameters())
        if isinstance(module, _BatchNorm) and module.affine and module.track_running_stats and fixed:
            found.append((path, module))
    return found


def _mean(norm: _BatchNorm) -> torch.Tensor:
    return torch.zeros(0) if norm.running_mean is None else norm.running_mean.detach()
