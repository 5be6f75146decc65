"""Whether numbers that a data set has normalised are normalised by the same constants again before the first layer.

What is made of the loader's numbers is `(x - mean) / deviation`. When these very constants, undone on what the loader
gave, bring back whole numbers, or pixels in steps of 1/255, the loader had used them already.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from torch import Tensor, nn

from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.modules import Names
from mlcheck.probe.measure.simplified import stilled
from mlcheck.probe.measure.tree import leaves
from mlcheck.trial.trial import Trial

_WEIGHTED = (nn.Linear, nn.modules.conv._ConvNd)
_STEPS = (1.0, 255.0)
_FEW = 5
_FAR = 0.05
_ROUNDING = 1e-4
_OFF_GRID = 0.02
_MOST_CHANNELS = 256


@dataclass(frozen=True, slots=True)
class NormalisedTwice:
    """Of `channels` that enter `layer`, the first that is normalised twice: by what, and the mean it ends with.

    `channel` is -1 where none is.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 7

    layer: str
    channels: int
    channel: int
    mean: float = 0.0
    deviation: float = 1.0
    after: tuple[float, float] = (0.0, 1.0)

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - one step, whatever the limit
        batch, names = first_batches(trial, 1)[0], Names(trial.models)
        loaded = [leaf.detach().cpu().double() for _, leaf in leaves(batch) if _is_data(leaf)]
        for layer, entered in _entering(trial, batch):
            for given in loaded:
                if given.numel() == entered.numel() and len(given) == len(entered):
                    return cls._compared(names.module(layer), given, entered.reshape(given.shape))
        raise NotMeasured("no layer with weights gets as many numbers as the batch holds, one for one")

    @classmethod
    def _compared(cls, layer: str, given: Tensor, entered: Tensor) -> Self:
        pairs = list(zip(given.transpose(0, 1).flatten(1), entered.transpose(0, 1).flatten(1), strict=True))
        for channel, (before, after) in enumerate(pairs):
            if (constants := _constants(before, after)) is not None and _is_undone_by(before, *constants):
                ends = float(after.mean()), float(after.std())
                return cls(layer, len(pairs), channel, *constants, ends)
        return cls(layer, len(pairs), -1)


def _is_data(leaf: Tensor) -> bool:
    return leaf.is_floating_point() and 2 <= leaf.ndim <= 4 and len(leaf) > 1 and 0 < leaf.shape[1] <= _MOST_CHANNELS


def _entering(trial: Trial, batch: Any) -> list[tuple[nn.Module, Tensor]]:
    """What layers with weights get straight from the data."""
    seen: list[tuple[nn.Module, Tensor]] = []

    def keep(layer: nn.Module, args: tuple[Any, ...]) -> None:
        if args and isinstance(args[0], Tensor) and not args[0].requires_grad and args[0].is_floating_point():
            seen.append((layer, args[0].detach().cpu().double()))

    layers = [m for model in trial.models.values() for m in model.modules() if isinstance(m, _WEIGHTED)]
    hooks = [layer.register_forward_pre_hook(keep) for layer in dict.fromkeys(layers)]
    try:
        with stilled(trial):
            trial.train_step(batch, 0)
    finally:
        for hook in hooks:
            hook.remove()
    return seen


def _constants(before: Tensor, after: Tensor) -> tuple[float, float] | None:
    """Mean and deviation of the normalisation that makes one of the other; None where nothing or anything else does."""
    spread, centred = before.std(), before - before.mean()
    if len(set(before[: _FEW * 10].tolist())) < _FEW or not spread > 0:
        return None
    slope = float((centred * (after - after.mean())).sum() / centred.pow(2).sum())
    offset = float(after.mean() - slope * before.mean())
    exact = (after - slope * before - offset).abs().max() <= _ROUNDING * max(float(after.abs().max()), _ROUNDING)
    if not exact or slope <= 0 or abs(slope - 1) < _FAR or abs(offset) < _FAR * slope:
        return None
    return -offset / slope, 1 / slope


def _is_undone_by(given: Tensor, mean: float, deviation: float) -> bool:
    """Whether it is on a grid once these constants are undone, and on none as it is."""
    undone = given * deviation + mean
    return any(_is_grid(undone * step) for step in _STEPS) and not any(_is_grid(given * step) for step in _STEPS)


def _is_grid(values: Tensor) -> bool:
    near = values.round()
    return len(set(near.tolist())) >= _FEW and bool((values - near).abs().max() <= _OFF_GRID)
