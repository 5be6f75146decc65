"""The class labels that the losses of a first step were given, whether or not the loss would take them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.loss.losses import LossCall, LossWatch
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.simplified import stilled
from mlcheck.probe.measure.tree import copied, leaves
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.traceback import error_line
from mlcheck.trial.trial import Trial

_CLASS_LOSSES = ("cross_entropy", "nll_loss")
_BINARY_LOSSES = ("binary_cross_entropy", "binary_cross_entropy_with_logits")


@dataclass(frozen=True, slots=True)
class LabelUse:
    """One classification loss: `classes` outputs (2 where one logit stands for two), and the labels of the first batch.

    `ignored` is the label left out. `field` names the tensor of the batch that the labels are, empty where they are
    made on the way.
    """

    kind: str
    place: Location
    classes: int
    field: str
    ignored: int
    weighted: bool
    low: int
    high: int
    one_a_sample: bool


@dataclass(frozen=True, slots=True)
class ShareUse:
    """A binary cross-entropy that the program does not weigh element by element, and the range of its labels."""

    kind: str
    place: Location
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Labels:
    """The classification losses of a first training step. `raised` tells the error that ended the step, if any."""

    reach: ClassVar[Reach] = "data"
    order: ClassVar[int] = 4

    uses: tuple[LabelUse, ...]
    raised: str
    shares: tuple[ShareUse, ...] = ()

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - one step, whatever the limit
        batch = first_batches(trial, 1)[0]
        watch, raised = LossWatch(keep_dropout=False), ""
        with restored(trial), stilled(trial), watch:
            seed_all(0)
            try:
                trial.train_step(copied(batch), 0)
            except Exception as error:
                raised = error_line(error)
        calls = [call for call in (*watch.calls, *watch.refused) if _is_of_classes(call) or _is_of_two(call)]
        found = [_use(call, batch) for call in calls]
        uses = [use for use in found if use.kind in _CLASS_LOSSES or use.field]  # ones and zeros of a GAN are no labels
        shares = tuple(
            {use.place: use for call in (*watch.calls, *watch.refused) if (use := _share_use(call))}.values()
        )
        if not uses and not shares:
            raise NotMeasured("no cross_entropy or nll_loss with class labels was computed")
        return cls(tuple({(use.kind, use.place, use.field): use for use in uses}.values()), raised, shares)


def _is_of_classes(call: LossCall) -> bool:
    return call.kind in _CLASS_LOSSES and not call.target.is_floating_point() and call.target.numel() > 0


def _is_of_two(call: LossCall) -> bool:
    """One output a sample, for a label that is 0 or 1."""
    target = call.target
    single = target.numel() > 0 and target.ndim > 0 and target.numel() == target.shape[0] == call.input.numel()
    return call.kind in _BINARY_LOSSES and single and bool(((target == 0) | (target == 1)).all())


def _share_use(call: LossCall) -> ShareUse | None:
    weighted = call.options.get("weight") is not None or call.options.get("reduction") == "none"
    if call.kind not in _BINARY_LOSSES or weighted or not call.target.numel():
        return None
    return ShareUse(call.kind, call.place, float(call.target.min()), float(call.target.max()))


def _use(call: LossCall, batch: Any) -> LabelUse:
    two = call.kind in _BINARY_LOSSES
    sure = not two or bool(call.target.min() != call.target.max())  # zeros alone are any other field's first class, too
    ignored = int(call.options.get("ignore_index", -100))
    flat = call.target.detach().cpu().flatten()
    kept = flat[flat != ignored]
    return LabelUse(
        kind=call.kind,
        place=call.place,
        classes=2 if two else call.input.shape[1] if call.input.ndim > 1 else call.input.shape[0],
        field=next((n for n, leaf in leaves(batch) if _same(leaf, flat) and (leaf.is_floating_point() or sure)), ""),
        ignored=ignored,
        weighted=any(call.options.get(name) is not None for name in ("weight", "pos_weight")),
        low=int(kept.min()) if kept.numel() else 0,
        high=int(kept.max()) if kept.numel() else 0,
        one_a_sample=two or call.target.ndim == 1,
    )


def _same(leaf: Tensor, labels: Tensor) -> bool:
    return leaf.numel() == labels.numel() and torch.equal(leaf.detach().cpu().flatten().long(), labels.long())
