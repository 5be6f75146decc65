"""Columns that training data has standardised, while validation data still has them as they were written down."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mlcheck.probe.measure.data.passes import Pass
from mlcheck.probe.measure.tree import leaves

_NEAR = 0.05
_FEW_COLUMNS = 4
_HALF = 0.5
_NEARLY_ALL = 0.9
_MOST = 0.75
_DECIMALS = 4
_DIGITS = 1e5
"""Beyond these numbers single precision has no decimals to tell."""
_ERRORS = 6.0
_WIDER = 1.5


@dataclass(frozen=True, slots=True)
class LeftRaw:
    """Of `standard` columns, with mean 0 and deviation 1 in training, `written` are short decimals in validation."""

    standard: int
    written: int
    decimals: int


def left_raw(name: str, training: Pass, validation: Pass) -> LeftRaw | None:
    """None unless nearly all are written so and most lie where standardised ones would not, by their sampling error."""
    trained, tested = _table(training, name), _table(validation, name)
    if trained is None or tested is None or trained.shape[1] != tested.shape[1]:
        return None
    spread = trained.std(0)
    standard = (trained.mean(0).abs() < _NEAR) & ((spread - 1).abs() < _NEAR)
    varying = int((spread > 0).sum())
    if int(standard.sum()) < max(_FEW_COLUMNS, _HALF * varying):
        return None
    trained, tested = trained[:, standard], tested[:, standard]
    decimals = _decimals(tested)
    written = (decimals >= 0) & (_decimals(trained) < 0)
    if float(written.double().mean()) < _NEARLY_ALL or float(_elsewhere(tested).double().mean()) < _MOST:
        return None
    return LeftRaw(int(standard.sum()), int(written.sum()), int(decimals[written].max()))


def _table(split: Pass, name: str) -> Tensor | None:
    """(rows, columns) of a table or of sequences of rows, in a type that holds decimals."""
    kept = [tensor for batch in split.kept if (tensor := dict(leaves(batch)).get(name)) is not None]
    if not kept or not all(one.dtype in (torch.float32, torch.float64) and one.ndim in (2, 3) for one in kept):
        return None
    if len({one.shape[-1] for one in kept}) > 1:
        return None
    table = torch.cat([one.detach().double().flatten(0, -2) for one in kept])
    return table if bool(table.isfinite().all()) else None


def _decimals(table: Tensor) -> Tensor:
    """How many decimals each column's numbers have, -1 where there is no end of them."""
    found = torch.full((table.shape[1],), -1)
    for decimals in reversed(range(_DECIMALS)):
        scaled = table * 10**decimals
        rounding = 2 * torch.finfo(torch.float32).eps * scaled.abs()
        short = ((scaled - scaled.round()).abs() <= rounding) & (scaled.abs() < _DIGITS)
        found[short.all(0)] = decimals
    return found


def _elsewhere(table: Tensor) -> Tensor:
    """Columns whose mean is not 0, or whose deviation is not near 1."""
    spread = table.std(0)
    mean_off: Tensor = table.mean(0).abs() > _ERRORS * spread.clamp_min(1.0) / len(table) ** 0.5
    return mean_off | (spread > _WIDER) | (spread < 1 / _WIDER)
