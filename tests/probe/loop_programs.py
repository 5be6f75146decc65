"""A training loop by hand, with something done before backward or the step, and with a schedule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from probe_programs import classes, cross_entropy, mlp, trial_of
from torch import Tensor

from mlcheck.trial.trial import Trial

Hook = Callable[[int, Tensor], None]


def loop(
    rate: float = 0.05, before: Hook | None = None, every: int = 1, share: float = 1.0, divide: float = 1.0
) -> Trial:
    """SGD with something done before backward or before the step, and an update every few batches."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)

    def step(batch: Any, index: int) -> dict[str, Tensor]:
        loss = cross_entropy(model, batch)
        if before:
            before(index, loss)
        (loss * share).backward()
        if index % every == every - 1:
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.grad /= divide
            optimizer.step()
            optimizer.zero_grad()
        return {"loss": loss.detach()}

    learnable = [(x, x[:, :5].argmax(1)) for x, _ in classes(8)]
    return trial_of(model, learnable, cross_entropy, optimizer, step=step)


def scheduled(schedule: Callable[[torch.optim.Optimizer], Any], rate: float = 0.05) -> Trial:
    trial = loop(rate)
    optimizer = trial.optimizers["optimizer"]
    scheduler, plain = schedule(optimizer), trial.train_step

    def step(batch: Any, index: int) -> Any:
        metrics = plain(batch, index)
        scheduler.step()
        return metrics

    trial.train_step, trial.schedulers = step, {"scheduler": scheduler}
    return trial
