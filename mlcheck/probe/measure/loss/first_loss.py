"""The loss of an untrained model: what it is made of, what backward makes of it, and what is in the batch."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from statistics import mean, stdev
from typing import Any, ClassVar, Self

import torch

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.loss.batch_targets import named, picked_in, targets_in
from mlcheck.probe.measure.loss.class_weights import class_weights
from mlcheck.probe.measure.loss.compared_by_hand import compared_by_hand, has_one_a_sample
from mlcheck.probe.measure.loss.floors import REACHED, Floors, floors, mean_loss
from mlcheck.probe.measure.loss.loss_scene import LossScene
from mlcheck.probe.measure.loss.losses import LossCall
from mlcheck.probe.measure.loss.margins import has_margin
from mlcheck.probe.measure.loss.penalties import Penalty, penalty_of, shrinking_of
from mlcheck.probe.measure.measurement import Reach
from mlcheck.probe.measure.tree import batch_size, leaves, map_tensors, rows
from mlcheck.trial.trial import Trial

BATCHES = 3
SAME = 0.01
DRAWS = 6


@dataclass(frozen=True, slots=True)
class LossFact:
    """One loss that feeds a backward pass. `value` and `ignorant` are means over what is predicted.

    Both are also means over the calls at one place, of which a loop over tasks makes many, of data of any size.
    `ignorant` is what a prediction without any knowledge costs (all logits 0, all outputs 0). `pull` is the
    derivative of what backward is called on with respect to this loss: negative where it is maximised.
    `reduction` is the loss's own: `none` where it is one number an element, which the program weighs itself.
    `outside` is the share of targets that lie where `made_by` never gets, `low` and `high` the targets' range.
    `alone` counts the trained parameters that this loss alone reaches. `own_target` says that the target is no data: it
    is learnt too, or held fast and in no batch. `margin` says that scores were lowered for the class that is wanted.
    `ones` are the fewest and the most of a sample, where the shares of classes that are wanted are zeros and ones.
    """

    kind: str
    place: Location
    made_by: str
    input_shape: tuple[int, ...]
    target_shape: tuple[int, ...]
    value: float
    ignorant: float
    floors: Floors | None
    pull: float | None
    weighted: bool
    low: float
    high: float
    outside: float
    reduction: str = ""
    alone: int = 0
    own_target: bool = False
    margin: bool = False
    class_weights: tuple[float, ...] = ()
    ones: tuple[int, int] = (1, 1)


@dataclass(slots=True)
class FirstLoss:
    """Losses of untrained steps, with optimizers held still.

    `inputs` and `targets` name the tensors of a batch that a model or a loss received, `picked` those of which a loss
    received the places that a mask picks. Where no loss of torch is seen,
    `compared` names those of several numbers a sample that no model received and the loss depends on, `written` those
    of one. `sums` are losses that say of themselves that they are sums over several samples, and that backward gets as
    they are. `tiled` is how the value that backward sees grows when every sample is in the batch twice: 1 for a mean, 2
    for a sum, `growths` the same for each of the losses. A loss that draws random numbers is averaged over some draws,
    and `tiled_error` is the standard error of its growth. `values` are those of each batch. `plain_mean` says that a
    term of what backward is called on is a mean with no factor. `in_order` says that the first batches are simply the
    first of the data.
    `optimizers` are the names of their classes. `shrinking` is, where no loss is recognised, how many times the
    gradient of the rest terms without the model's output draw the weights to 0.
    """

    reach: ClassVar[Reach] = "loss"
    order: ClassVar[int] = 8

    losses: list[LossFact] = field(default_factory=list)
    inputs: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    picked: tuple[str, ...] = ()
    compared: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    values: list[float] = field(default_factory=list)
    place: Location = field(default_factory=Location)
    penalty: Penalty | None = None
    shrinking: float | None = None
    sums: tuple[tuple[str, Location], ...] = ()
    tiled: float | None = None
    tiled_error: float = 0.0
    growths: tuple[float | None, ...] = ()
    samples: int = 0
    backwards: int = 0
    plain_mean: bool = False
    in_order: bool = False
    optimizers: frozenset[str] = frozenset()

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few passes, whatever the limit
        batches = first_batches(trial, BATCHES)
        scenes = [LossScene(trial, batch) for batch in batches]
        first = scenes[0]
        size = batch_size(batches[0])
        twice = _twice(batches[0], size) if size is not None else None
        tiled, growths = _tiled(trial, twice, first)
        error = 0.0
        if tiled is not None and abs(tiled - 1) > SAME and LossScene(trial, batches[0], seed=1).value != first.value:
            tiled, error = _averaged(trial, batches[0], twice)
        inputs = named(batches[0], first.inputs)
        by_hand = () if first.seen or not inputs else compared_by_hand(trial, batches[0], inputs, first.value)
        single = tuple(name for name, leaf in leaves(batches[0]) if name in by_hand and has_one_a_sample(leaf))
        return cls(
            losses=[_fact(call, pull, size or 1, scenes, first.alone(call)) for call, pull in first.seen],
            inputs=inputs,
            targets=targets_in(batches[0], [call for call, _ in first.seen]),
            picked=picked_in(batches[0], [call for call, _ in first.seen]),
            compared=tuple(name for name in by_hand if name not in single),
            written=single,
            values=[scene.value for scene in scenes],
            place=first.place,
            penalty=penalty_of(scenes),
            shrinking=shrinking_of(scenes),
            sums=tuple((call.kind, call.place) for call in first.sums),
            tiled=tiled,
            tiled_error=error,
            growths=growths,
            samples=size or 0,
            backwards=first.backwards,
            plain_mean=first.plain_mean,
            in_order=not trial.repeats_batches,
            optimizers=frozenset(type(each).__name__ for each in trial.optimizers.values()),
        )


def _fact(call: LossCall, pull: float | None, samples: int, scenes: list[LossScene], alone: int) -> LossFact:
    here = call.kind, call.place
    alike = [other for scene in scenes for other, _ in scene.seen if (other.kind, other.place) == here]
    floating = call.target.is_floating_point()
    target = call.target.double()
    low, high = REACHED.get(call.bounded_by, (-math.inf, math.inf))
    return LossFact(
        kind=call.kind,
        place=call.place,
        made_by=call.bounded_by,
        input_shape=tuple(call.input.shape),
        target_shape=tuple(call.target.shape),
        value=mean(map(_value, alike)),
        ignorant=mean(map(_ignorant, alike)),
        floors=floors(call, samples),
        pull=pull,
        weighted=call.options.get("weight") is not None or call.options.get("pos_weight") is not None,
        low=float(target.min()) if target.numel() else math.nan,
        high=float(target.max()) if target.numel() else math.nan,
        outside=float(((target < low) | (target > high)).double().mean()) if floating and target.numel() else 0.0,
        reduction=str(call.options.get("reduction", "")),
        alone=alone,
        own_target=call.learns_target or (call.swapped and not targets_in(scenes[0].batch, [call])),
        margin=has_margin(alike),
        class_weights=class_weights(call.options),
        ones=_ones(call),
    )


def _ones(call: LossCall) -> tuple[int, int]:
    target = call.target
    shares = call.kind == "cross_entropy" and target.is_floating_point() and target.ndim > 1 and target.numel()
    if not shares or not bool(((target == 0) | (target == 1)).all()):
        return 1, 1
    counts = target.sum(1)
    return int(counts.min()), int(counts.max())


def _value(call: LossCall) -> float:
    """The mean loss; of two classes no more than without weights, which a prediction may decide, as in a focal loss.

    A last bias at the share of rare positives costs much where these alone count, and is no model that is too sure.
    """
    plain = replace(call, weights=None) if call.kind.startswith("binary") else call
    return min(mean_loss(call), mean_loss(plain))


def _ignorant(call: LossCall) -> float:
    """The mean loss of a prediction that knows nothing: equal logits, probability a half, zeros."""
    blank = torch.zeros_like(call.input)
    if call.kind == "nll_loss":
        blank -= math.log(call.input.shape[1] if call.input.ndim > 1 else call.input.shape[0])
    elif call.kind == "binary_cross_entropy":
        blank += 0.5
    return mean_loss(replace(call, input=blank))


def _twice(batch: Any, size: int) -> Any:
    return map_tensors(rows(batch, torch.arange(size).repeat_interleave(2)), torch.Tensor.contiguous)


def _tiled(trial: Trial, twice: Any, first: LossScene) -> tuple[float | None, tuple[float | None, ...]]:
    """Of the whole and of each loss. None where samples cannot be repeated, or the loop insists on its batch size."""
    if twice is None or not abs(first.value) > 1e-6 or first.backwards != 1:
        return None, ()
    try:
        scene = LossScene(trial, twice)
    except Exception:  # a model for one batch size
        return None, ()
    same = len(scene.parts) == len(first.parts) and [c.kind for c, _ in scene.seen] == [c.kind for c, _ in first.seen]
    pairs = zip(scene.parts, first.parts) if same else ()
    return scene.value / first.value, tuple(after / before if before else None for after, before in pairs)


def _averaged(trial: Trial, batch: Any, twice: Any) -> tuple[float, float]:
    """How the mean over some draws grows, and the standard error of that."""
    once, after = ([LossScene(trial, given, seed).value for seed in range(DRAWS)] for given in (batch, twice))
    growth = mean(after) / mean(once)
    variance = sum(stdev(values) ** 2 / (DRAWS * mean(values) ** 2) for values in (once, after))
    return growth, abs(growth) * math.sqrt(variance)
