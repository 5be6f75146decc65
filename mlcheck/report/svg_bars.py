"""Horizontal bars with their numbers."""

from __future__ import annotations

from collections.abc import Iterator

from mlcheck.core.finding import Figure
from mlcheck.report.digest import number
from mlcheck.report.svg import ALARM, INK, MUTED, RULE, SERIES, Scale, label, line, margin, picture, plottable

_SHOWN = 40
_ROW = 20
_RIGHT = 550
_LABEL = 26


def bars(figure: Figure) -> str:
    """SVG of a figure of kind `bars`. Raises KeyError or TypeError on data of another form."""
    labels, values = figure.data["labels"], figure.data["values"]
    unit = figure.data.get("unit", "")
    pairs = list(zip(labels, values, strict=False))
    fine = [value for _, value in pairs if plottable(value)]
    low, high = min([0.0, *fine]), max([0.0, *fine])
    left = margin(labels[:_SHOWN], _LABEL)
    across = Scale(low, high if high > low else low + 1.0, left, _RIGHT)
    parts = [part for position, pair in enumerate(pairs[:_SHOWN]) for part in _bar(position, *pair, across)]
    height = _ROW * min(len(pairs), _SHOWN) + 6
    parts.insert(0, line(across(0.0), 0, across(0.0), height - 4, RULE))
    parts.append(label(left, height + 10, unit))
    if len(pairs) > _SHOWN:
        parts.append(label(left + 200, height + 10, f"{len(pairs) - _SHOWN} more not drawn"))
    described = ", ".join(f"{name} {number(value)}" for name, value in pairs[:_SHOWN])
    return picture(figure.title, f"{described} {unit}".strip(), height + 18, parts)


def _bar(position: int, name: object, value: object, across: Scale) -> Iterator[str]:
    y = position * _ROW + 2
    yield label(across.start - 8, y + 13, name, anchor="end", fill=INK, limit=_LABEL)
    if not plottable(value):
        yield label(across(0.0) + 6, y + 13, number(value), fill=ALARM)
        return
    zero, end = across(0.0), across(value)
    start, length = min(zero, end), abs(end - zero)
    yield f'<rect x="{start:.1f}" y="{y + 2}" width="{length:.1f}" height="{_ROW - 6}" fill="{SERIES[0]}"/>'
    yield label(max(zero, end) + 6, y + 13, number(value), fill=MUTED)
