"""Margins: scores that the program lowered for the very class that is wanted, as angular and cosine margins do."""

from __future__ import annotations

from dataclasses import replace

import torch

from mlcheck.probe.measure.loss.losses import LossCall

DRAWS = 40
FEW = 8
MANY = 1_000_000


def has_margin(calls: list[LossCall]) -> bool:
    """Whether in every batch the scores fit the batch's own classes worse than the same classes in any other order.

    Scores that do not know their class do so in one batch of forty by chance.
    """
    return bool(calls) and all(_fits_worst(call) for call in calls)


def _fits_worst(call: LossCall) -> bool:
    """Only where a batch is one score for each class, and no class is left out."""
    target = call.target
    classes = call.kind in ("cross_entropy", "nll_loss") and not target.is_floating_point() and target.ndim == 1
    if not classes or len(target) < FEW or call.input.numel() > MANY or call.weights is not None:
        return False
    generator = torch.Generator().manual_seed(0)
    orders = (torch.randperm(len(target), generator=generator).to(target.device) for _ in range(DRAWS))
    own = _fit(call)
    return all(_fit(replace(call, target=target[order])) > own for order in orders)


def _fit(call: LossCall) -> float:
    """The mean score of the wanted class: the rest of the loss is the same in every order."""
    inside = (call.target >= 0) & (call.target < call.input.shape[1])
    rows = inside.nonzero()[:, 0]
    return float(call.input[rows, call.target[rows].long()].double().mean()) if len(rows) else 0.0
