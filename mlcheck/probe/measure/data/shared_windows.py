"""Windows of one series that two splits share a part of, at another place."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from mlcheck.probe.measure.data.near import FEW
from mlcheck.probe.measure.data.split import Split

_MOST_WINDOWS = 400_000
_MET = 8

_Rows = np.ndarray[Any, Any]


def shared_windows(training: Split, validation: Split) -> tuple[float, int] | None:
    """The share of validation samples that hold a stretch of a training sample, at another place, and its length.

    Of the share is taken off twice that of those which hold such a stretch read backwards: values of few levels meet by
    chance, in either direction. Phrases that a language repeats meet forwards alone. They end within a sample, where
    what windows of one series share goes on to the end of one and begins the other; so twice those are taken off too.
    What comes at the same place in both may be the columns of a table, few values each, and no time at all.
    None where samples are no sequences of one length, or hold too few different numbers to tell stretches apart.
    """
    mine, theirs = _sequences(training), _sequences(validation)
    if mine is None or theirs is None or mine.shape[1] != theirs.shape[1] or min(len(mine), len(theirs)) < FEW:
        return None
    length = mine.shape[1]
    stretch = max(5, length // 4) if mine.dtype.kind == "f" else max(20, length // 2)
    if stretch > length or not _tells_apart(mine, stretch):
        return None
    fits = max(1, _MOST_WINDOWS // (length - stretch + 1))
    known = _windows(mine[:fits], stretch)
    forwards, backwards = (_share(rows, known, stretch) for rows in (theirs[:fits], theirs[:fits, ::-1]))
    share = forwards - 2 * backwards
    if share > 0 and mine.dtype.kind != "f":
        whole, broken = _overlaps(theirs[:fits], mine[:fits], stretch)
        share = min(share, whole - 2 * broken)
    return share, stretch


def _share(rows: _Rows, known: _Rows, stretch: int) -> float:
    asked = _windows(rows, stretch)
    found = _moved(asked, known, rows.shape[1] - stretch + 1) & _varied(asked)
    return float(found.reshape(len(rows), -1).any(1).mean())


def _overlaps(asked: _Rows, known: _Rows, stretch: int) -> tuple[float, float]:
    """The shares of rows that share a stretch with a known row to an end of both, and that share one which ends before.

    A stretch is compared where it is met first, at most `_MET` times.
    """
    places = asked.shape[1] - stretch + 1
    met: dict[bytes, list[tuple[int, int]]] = {}
    mine = _as_items(_windows(asked, stretch))
    wanted = {item.tobytes() for item in mine}
    for number, item in enumerate(_as_items(_windows(known, stretch))):
        if (key := item.tobytes()) in wanted and len(met.setdefault(key, [])) < _MET:
            met[key].append(divmod(number, places))
    whole, broken = np.zeros(len(asked), bool), np.zeros(len(asked), bool)
    for number, item in enumerate(mine):
        row, place = divmod(number, places)
        for other, there in met.get(item.tobytes(), ()):
            if there != place:
                goes_on = _goes_on(asked[row], known[other], there - place)
                whole[row] |= goes_on
                broken[row] |= not goes_on
    return float(whole.mean()), float(broken.mean())


def _goes_on(one: _Rows, other: _Rows, further: int) -> bool:
    """Whether two rows agree wherever both have values, `other` being `further` places ahead."""
    if further < 0:
        one, other = other, one
    return bool((one[: len(one) - abs(further)] == other[abs(further) :]).all())


def _sequences(split: Split) -> _Rows | None:
    """(samples, length): the first feature along the longer axis of what is no picture."""
    rows = []
    for sample in split.kept.values():
        values = sample.detach().cpu()
        if values.ndim == 2 and min(values.shape) <= 4 * 8:
            values = values[0] if values.shape[0] < values.shape[1] else values[:, 0]
        if values.ndim != 1 or values.is_complex() or values.dtype is torch.bool:
            return None
        rows.append(values.double() if values.is_floating_point() else values.long())
    if not rows or len({row.shape for row in rows}) != 1 or rows[0].numel() < 8:
        return None
    return torch.stack(rows).numpy()


def _tells_apart(rows: _Rows, stretch: int) -> bool:
    """Whether most samples begin with a stretch that does not come twice by chance."""
    return bool(_varied(rows[:200, :stretch]).mean() >= 0.5)


def _varied(windows: _Rows) -> _Rows:
    """Which windows hold enough different values: one-hot columns and runs of padding are alike in any data.

    So are a few tokens in front of padding. Of tokens no one may fill half a window.
    """
    ordered = np.sort(windows, axis=1)
    different = 1 + (ordered[:, 1:] != ordered[:, :-1]).sum(1)
    if windows.dtype.kind == "f":
        enough: _Rows = different >= windows.shape[1] - 1
        return enough
    half = windows.shape[1] // 2
    mixed: _Rows = (different >= 4) & ~(ordered[:, half:] == ordered[:, :-half]).any(1)
    return mixed


def _moved(asked: _Rows, known: _Rows, places: int) -> _Rows:
    """Which windows are known from another of the `places` of a sample, and not from their own."""
    mine, theirs = _as_items(asked), _as_items(known)
    found = np.isin(mine, theirs)
    for place in range(places):
        found[place::places] &= ~np.isin(mine[place::places], theirs[place::places])
    return found


def _windows(rows: _Rows, stretch: int) -> _Rows:
    windows = np.lib.stride_tricks.sliding_window_view(rows, stretch, axis=1).reshape(-1, stretch)
    return np.ascontiguousarray(windows)


def _as_items(windows: _Rows) -> _Rows:
    """Each window as one item that compares as a whole."""
    return windows.view(np.dtype((np.void, windows.dtype.itemsize * windows.shape[1])))[:, 0]
