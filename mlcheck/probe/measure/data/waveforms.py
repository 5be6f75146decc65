"""Signals along time, drawn as their envelope: the lowest and the highest value of every stretch."""

from __future__ import annotations

import torch
from torch import Tensor

from mlcheck.core.finding import Figure

LONG = 256
SHOWN = 3
_STRETCHES = 150
_SMOOTH = 0.3


def is_waveform(tensor: Tensor) -> bool:
    """(samples, time) or (samples, 1 or 2 channels, time), long, and each value near the one before it."""
    if not tensor.is_floating_point() or tensor.ndim not in (2, 3) or tensor.shape[-1] < LONG:
        return False
    if tensor.ndim == 3 and tensor.shape[1] > 2:
        return False
    rows = tensor.detach().float().cpu().nan_to_num(0.0).reshape(-1, tensor.shape[-1])[:8]
    rows = rows - rows.mean(1, keepdim=True)
    power = rows.pow(2).sum(1)
    near = (rows[:, 1:] * rows[:, :-1]).sum(1)
    return bool((power > 0).any()) and float((near / power.clamp_min(1e-30)).median()) > _SMOOTH


def waveforms(name: str, tensor: Tensor, captions: list[str]) -> Figure:
    """The first channel of the first few samples."""
    rows = tensor[:SHOWN].detach().float().cpu().nan_to_num(0.0)
    series = []
    for row, caption in zip(rows if rows.ndim == 2 else rows[:, 0], captions):
        x, y = _envelope(row)
        series.append({"name": caption, "x": x, "y": y})
    title = f"{name}: the first {len(series)} signals of {tensor.shape[-1]:,} values, by their label"
    return Figure("curves", title, {"series": series, "x_label": "position", "y_label": "value"})


def _envelope(row: Tensor) -> tuple[list[float], list[float]]:
    length = len(row)
    stretch = max(1, length // _STRETCHES)
    parts = row[: length // stretch * stretch].reshape(-1, stretch)
    both = torch.stack([parts.min(1).values, parts.max(1).values], dim=1).flatten()
    x = [place * stretch / 2 for place in range(len(both))]
    return x, [round(value, 5) for value in both.tolist()]
