"""Which labels of a batch no training goes by: those with an id that the loss leaves out, and padding behind rows."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from mlcheck.probe.measure.data.examples import CLASS_LOSSES
from mlcheck.probe.measure.loss.losses import LossWatch
from mlcheck.probe.measure.modules import ModuleWatch
from mlcheck.probe.measure.tree import copied
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial


def left_out(trial: Trial, batch: Any, output: Tensor, label: Tensor) -> Tensor:
    """A mask of `label`, whose classes this output of a model scores; all False where a training step tells nothing."""
    nothing = torch.zeros_like(label, dtype=torch.bool)
    if label.ndim < 2:
        return nothing
    losses, felt = gradients_of(trial, batch, output)
    ids = {int(call.options["ignore_index"]) for call in losses.calls if call.kind in CLASS_LOSSES}
    by_id = label == ids.pop() if len(ids) == 1 else nothing
    if by_id.any() or len(felt) != 1:
        return by_id
    quiet = _quiet(felt[0], label)
    return quiet if _is_behind(quiet) else nothing


def gradients_of(trial: Trial, batch: Any, output: Tensor) -> tuple[LossWatch, list[Tensor]]:
    """The losses of a training step, as far as it goes, and what they ask of each output of a model of this shape."""
    losses, felt = LossWatch(), list[Tensor]()

    def reply(given: Any) -> Any:
        if isinstance(given, Tensor) and given.requires_grad and given.shape == output.shape:
            given.register_hook(felt.append)  # type: ignore[no-untyped-call]
        return given

    with suppress(Exception), restored(trial), ModuleWatch(reply=reply), losses:
        seed_all(0)
        trial.train_step(copied(batch), 0)
    return losses, felt


def _quiet(gradient: Tensor, label: Tensor) -> Tensor:
    """The labels whose scores have no gradient at all."""
    if gradient.numel() == label.numel():
        return gradient.reshape(label.shape) == 0
    scores = gradient if gradient.shape[:-1] == label.shape else gradient.movedim(1, -1)
    return (scores == 0).all(-1)


def _is_behind(quiet: Tensor) -> bool:
    """Whether they end rows of different lengths: the easy ones that a loss over the hardest leaves out do not."""
    if quiet.ndim != 2:
        return False
    kept = (~quiet).sum(1)
    return int(kept.min()) < int(kept.max()) and bool((quiet.int().diff(dim=1) >= 0).all())
