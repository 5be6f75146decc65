"""A matrix as a heat map with its scale: blue above zero, orange below, a cross where there is no number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlcheck.core.finding import Figure
from mlcheck.report.digest import number
from mlcheck.report.svg import ALARM, INK, MUTED, RULE, SERIES, WIDTH, label, picture, plottable, safe

_SHOWN = 48
_LEFT, _TOP, _LEGEND = 130, 64, 40
_STEPS = 20


def matrix(figure: Figure) -> str:
    """SVG of a figure of kind `matrix`. Raises KeyError or TypeError on data of another form."""
    rows, columns, values = figure.data["rows"], figure.data["columns"], figure.data["values"]
    shown = [list(row[:_SHOWN]) for row in values[:_SHOWN]]
    fine = [value for row in shown for value in row if plottable(value)]
    top = max((abs(value) for value in fine), default=0.0) or 1.0
    size = min(34.0, (WIDTH - _LEFT - 10) / max(1, len(columns[:_SHOWN])))
    below = _TOP + size * len(shown)
    parts = [
        *_labels(rows[:_SHOWN], columns[:_SHOWN], size),
        *(
            part
            for y, row in enumerate(shown)
            for x, value in enumerate(row)
            for part in _cell(_LEFT + x * size, _TOP + y * size, size, value, top)
        ),
        *_legend(below + 14, fine, top),
    ]
    left = max(len(values), max((len(row) for row in values), default=0)) > _SHOWN
    described = f"{len(rows)} rows, {len(columns)} columns, {_range(fine)}"
    if left:
        parts.append(label(_LEFT + 330, below + 24, f"the first {_SHOWN} rows and columns"))
    return picture(figure.title, described, below + _LEGEND, parts)


def _range(fine: Sequence[float]) -> str:
    return f"from {number(min(fine))} to {number(max(fine))}" if fine else "no number in it"


def _labels(rows: Sequence[object], columns: Sequence[object], size: float) -> Iterator[str]:
    step = 1 if size >= 11 else 2 if size >= 6 else 4
    for position, name in list(enumerate(rows))[::step]:
        yield label(_LEFT - 6, _TOP + position * size + size / 2 + 4, name, anchor="end", fill=INK, limit=20)
    upright = all(len(str(name)) * 7 <= size for name in columns)
    for position, name in list(enumerate(columns))[::step]:
        x = _LEFT + position * size + size / 2
        if upright:
            yield label(x, _TOP - 6, name, anchor="middle", fill=INK)
        else:
            turn = f"translate({x + 4:.1f} {_TOP - 6}) rotate(-50)"
            yield f'<text transform="{turn}" fill="{INK}">{safe(name, 11)}</text>'


def _cell(x: float, y: float, size: float, value: object, top: float) -> Iterator[str]:
    box = f'x="{x:.1f}" y="{y:.1f}" width="{size - 1:.1f}" height="{size - 1:.1f}"'
    if not plottable(value):
        yield f'<rect {box} fill="none" stroke="{RULE}"/>'
        yield label(x + size / 2, y + size / 2 + 4, "×", anchor="middle", fill=MUTED if value is None else ALARM)
        return
    share = abs(value) / top
    yield f"<rect {box} {_shade(value, top)}/>"
    text = number(value)
    if len(text) * 6.5 <= size:
        fill = "var(--paper, #ffffff)" if share > 0.55 else INK
        yield label(x + size / 2, y + size / 2 + 4, text, anchor="middle", fill=fill)


def _shade(value: float, top: float) -> str:
    color = SERIES[0] if value >= 0 else SERIES[1]
    return f'fill="{color}" fill-opacity="{0.04 + 0.96 * abs(value) / top:.2f}"'


def _legend(y: float, fine: Sequence[float], top: float) -> Iterator[str]:
    negative, positive = any(value < 0 for value in fine), any(value > 0 for value in fine) or not fine
    low, high = -top if negative else 0.0, top if positive else 0.0
    yield label(_LEFT, y + 10, number(low))
    for step in range(_STEPS):
        shade = _shade(low + (high - low) * (step + 0.5) / _STEPS, top)
        yield f'<rect x="{_LEFT + 60 + step * 9}" y="{y}" width="9" height="10" {shade}/>'
    yield label(_LEFT + 66 + _STEPS * 9, y + 10, number(high))
