"""Tables as training programs: their rows, and a small network on them."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from probe_programs import mlp, trial_on
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from mlcheck.trial.trial import Trial


def draws(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def numbers(rows: int = 600, columns: int = 8, seed: int = 1) -> Tensor:
    return torch.randn(rows, columns, generator=draws(seed))


def classified(x: Tensor, y: Tensor, **options: Any) -> Trial:
    classes = max(2, int(y.max()) + 1)
    model = nn.Sequential(nn.Flatten(), mlp(x[0].numel(), classes))
    weight = options.pop("weight", None)
    loss = options.pop("loss", lambda m, b: F.cross_entropy(m(b[0]), b[1], weight=weight))
    return trial_on(TensorDataset(x, y), options.pop("validation", None), model, loss, **options)


def regressed(x: Tensor, y: Tensor) -> Trial:
    return trial_on(TensorDataset(x, y), None, mlp(x.shape[1], 1), lambda m, b: F.mse_loss(m(b[0])[:, 0], b[1]))


def rare(share: float, rows: int = 2000) -> Tensor:
    return (torch.rand(rows, generator=draws(5)) < share).long()


def standard(x: Tensor) -> Tensor:
    return (x - x.mean(0)) / x.std(0).clamp_min(1e-6)
