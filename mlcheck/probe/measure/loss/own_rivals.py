"""Whether a contrastive loss that is written by hand counts each view among those that it has to be told apart from.

The gradient of such a loss, -log of one term over the sum of a row, with respect to the similarities is the softmax of
the row, less 1 at what is wanted. A diagonal that was masked or left out has no part in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mlcheck.core.finding import Location
from mlcheck.probe.measure.place import user_location
from mlcheck.probe.measure.watched_step import watch_step
from mlcheck.trial.trial import Trial

_FEW = 10
_MOST = 2048
_SAME = 1e-3
_TELLING = 1e-6  # of a row's largest gradient: what is below may be all rounding
_SIMILARITIES = {
    torch.matmul, torch.mm, torch.einsum, Tensor.matmul, Tensor.mm, Tensor.__matmul__, F.cosine_similarity,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class OwnRivals:
    """`rows` of similarities, each over the sum of a row with its own."""

    rows: int
    place: Location


def own_rivals(trial: Trial) -> OwnRivals | None:
    """Of the first training step; None where no table of similarities is used in this way."""
    tables: list[tuple[Tensor, Tensor, Location]] = []

    def look(func: Any, _args: tuple[Any, ...], _kwargs: dict[str, Any], result: Tensor) -> None:
        if func in _SIMILARITIES and _is_of_all_by_all(result):
            result.retain_grad()
            tables.append((result, result.detach().clone(), user_location()))

    watch_step(trial, look)
    for table, values, place in tables:
        if table.grad is not None and _has_own(values.double(), table.grad.double()):
            return OwnRivals(len(values), place)
    return None


def _is_of_all_by_all(table: Tensor) -> bool:
    if table.ndim != 2 or not table.requires_grad or not _FEW <= len(table) == table.shape[1] <= _MOST:
        return False
    return torch.allclose(table.detach(), table.detach().T, rtol=1e-4)


def _has_own(values: Tensor, gradient: Tensor) -> bool:
    """Whether all of a row's numbers but the wanted ones have the gradient of a softmax of the row, its own as well.

    Beside others above 0, and each row's softmax, with what it wants, weighs the same.
    """
    own = torch.eye(len(values), dtype=torch.bool, device=values.device)
    rivals = gradient > _TELLING * gradient.amax(1, keepdim=True)
    if not bool(rivals[own].all()) or int((rivals & ~own).sum(1).min()) < _FEW // 2:
        return False
    logs = gradient.clamp_min(1e-300).log()
    slope = _slope(values, logs, rivals & ~own)
    if slope <= 0:
        return False
    level = _mean(logs - slope * values, rivals & ~own)
    off = (logs - slope * values - level).abs()
    if float(off[rivals].max()) > _SAME:
        return False
    whole = (slope * values + level).exp().sum(1)
    return float(whole.std() / whole.mean()) < _SAME


def _slope(values: Tensor, logs: Tensor, used: Tensor) -> float:
    """Of the logarithms over the values, within rows."""
    x, y = (part - _mean(part, used) for part in (values, logs))
    return float((x * y)[used].sum() / x.pow(2)[used].sum().clamp_min(1e-300))


def _mean(values: Tensor, used: Tensor) -> Tensor:
    return (values * used).sum(1, keepdim=True) / used.sum(1, keepdim=True)
