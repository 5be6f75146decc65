"""Whether what a pretrained batch norm has seen is like what it is given: its running statistics beside the data's."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.modules import Names
from mlcheck.probe.measure.program_modules import held_modules
from mlcheck.probe.measure.simplified import stilled
from mlcheck.probe.measure.tree import copied
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

BATCHES = 3
FEW_VALUES = 64
FEW_STEPS = 10
_NOTHING = 1e-8


@dataclass(frozen=True, slots=True)
class RunningStatistics:
    """The first batch norm that had statistics before training: the data's variance over its own, for each channel.

    It may be one of a teacher, or of another network that the program holds beside the models that it trains.
    `training` says that the norm is in training mode there, and so learns the data's statistics in time.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 4

    name: str
    ratios: tuple[float, ...]
    training: bool

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few steps, whatever the limit
        models = {**trial.models, **held_modules(trial)}
        known = {norm: (norm.running_mean, norm.running_var.clone()) for norm in _pretrained(models.values())}
        if not known:
            raise NotMeasured("no batch norm has statistics before training")
        seen = _Seen(list(known))
        with stilled(trial), seen.hooks:
            for index, batch in enumerate(first_batches(trial, BATCHES)):
                trial.train_step(batch, index)
        if seen.first is None or seen.count < FEW_VALUES:
            raise NotMeasured("no batch norm with statistics takes part in a training step, or of too few values")
        own = Names(trial.models)
        if not own.knows(seen.first) and _is_made(trial, seen.first):
            raise NotMeasured("what enters the first batch norm with statistics is made by a model that is trained")
        before = known[seen.first][1].double().cpu()
        ratios = (seen.variance / before.clamp_min(_NOTHING))[before > _NOTHING]
        if not len(ratios):
            raise NotMeasured("the first batch norm with statistics has seen no channel that varies")
        names = own if own.knows(seen.first) else Names(models)
        return cls(names.module(seen.first), tuple(ratios.tolist()), seen.training)


def _is_made(trial: Trial, norm: Any) -> bool:
    """Whether it is given other numbers where the models that are trained have other weights, as of what they draw."""
    batch, given = first_batches(trial, 1)[0], []
    for scale in (1.0, 0.5):
        seen = _Seen([norm])
        with restored(trial), stilled(trial), seen.hooks:
            with torch.no_grad():
                for weight in (p for model in trial.models.values() for p in model.parameters() if p.requires_grad):
                    weight.mul_(scale)
            seed_all(0)
            trial.train_step(copied(batch), 0)
        given.append(seen.variance)
    return not torch.equal(*given)


def _pretrained(models: Iterable[nn.Module]) -> list[Any]:
    """Batch norms whose running statistics are not those that they are made with, nor those of a pass to try a shape.

    Weights that were published before norms counted their steps have a count of none.
    """
    norms = [m for model in models for m in model.modules() if isinstance(m, _BatchNorm)]
    return [
        norm
        for norm in dict.fromkeys(norms)
        if norm.running_mean is not None
        and norm.running_var is not None
        and not 0 < int(norm.num_batches_tracked if norm.num_batches_tracked is not None else 0) < FEW_STEPS
        and bool((norm.running_mean != 0).any() or (norm.running_var != 1).any())
    ]


class _Seen:
    """The mean over calls of the variance of what the first of the norms is given."""

    def __init__(self, norms: list[Any]) -> None:
        self.first: Any = None
        self.training = False
        self.count = 0
        self._variances: list[Tensor] = []
        self.hooks = ExitStack()
        for norm in norms:
            self.hooks.callback(norm.register_forward_pre_hook(self._see).remove)

    def _see(self, norm: Any, given: tuple[Any, ...]) -> None:
        if self.first is None:
            self.first, self.training = norm, bool(norm.training)
        if norm is self.first and isinstance(given[0], Tensor):
            channels = given[0].detach().double().cpu().movedim(1, 0).flatten(1)
            self.count += channels.shape[1]
            self._variances.append(channels.var(1, correction=0))

    @property
    def variance(self) -> Tensor:
        return torch.stack(self._variances).mean(0)
