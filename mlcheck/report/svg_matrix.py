"""A matrix as a heat map with its scale: blue above zero, orange below, a cross where there is no number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mlcheck.core.finding import Figure
from mlcheck.core.plural import plural
from mlcheck.report.digest import number
from mlcheck.report.svg import ALARM, INK, MUTED, RULE, SERIES, WIDTH, label, margin, picture, plottable, safe

_SHOWN = 48
_LEGEND = 40
_STEPS = 20
_SHADES = 40
_LONGEST_ROW, _LONGEST_COLUMN = 20, 11


@dataclass(frozen=True, slots=True)
class _Grid:
    """Where the cells lie: the corner above the first one, and the side of each."""

    left: float
    top: float
    size: float
    upright: bool


def matrix(figure: Figure) -> str:
    """SVG of a figure of kind `matrix`. Raises KeyError or TypeError on data of another form."""
    rows, columns, values = figure.data["rows"], figure.data["columns"], figure.data["values"]
    shown = [list(row[:_SHOWN]) for row in values[:_SHOWN]]
    fine = [value for row in shown for value in row if plottable(value)]
    top = max((abs(value) for value in fine), default=0.0) or 1.0
    grid = _grid(rows[:_SHOWN], columns[:_SHOWN])
    below = grid.top + grid.size * len(shown)
    cells = [(x, y, value) for y, row in enumerate(shown) for x, value in enumerate(row)]
    parts = [*_labels(rows[:_SHOWN], columns[:_SHOWN], grid), *_squares(grid, cells, top)]
    parts += [_told(grid, x, y, value, top) for x, y, value in cells]
    parts += _legend(grid.left, below + 14, fine, top)
    described = f"{plural(len(rows), 'row')}, {plural(len(columns), 'column')}, {_range(fine)}"
    if max(len(values), max((len(row) for row in values), default=0)) > _SHOWN:
        parts.append(label(grid.left + 330, below + 24, f"the first {_SHOWN} rows and columns"))
    return picture(figure.title, described, below + _LEGEND, parts)


def _grid(rows: Sequence[object], columns: Sequence[object]) -> _Grid:
    left = margin(rows, _LONGEST_ROW)
    size = min(34.0, (WIDTH - left - 10) / max(1, len(columns)))
    upright = all(len(str(name)) * 7 <= size for name in columns)
    return _Grid(left, 20 if upright else 8 + 0.8 * margin(columns, _LONGEST_COLUMN), size, upright)


def _range(fine: Sequence[float]) -> str:
    return f"from {number(min(fine))} to {number(max(fine))}" if fine else "no number in it"


def _labels(rows: Sequence[object], columns: Sequence[object], grid: _Grid) -> Iterator[str]:
    step = 1 if grid.size >= 11 else 2 if grid.size >= 6 else 4
    for position, name in list(enumerate(rows))[::step]:
        y = grid.top + (position + 0.5) * grid.size + 4
        yield label(grid.left - 6, y, name, anchor="end", fill=INK, limit=_LONGEST_ROW)
    for position, name in list(enumerate(columns))[::step]:
        x, y = grid.left + (position + 0.5) * grid.size, grid.top - 6
        if grid.upright:
            yield label(x, y, name, anchor="middle", fill=INK)
        else:
            turn = f"translate({x + 4:.1f} {y:.1f}) rotate(-50)"
            yield f'<text transform="{turn}" fill="{INK}">{safe(name, _LONGEST_COLUMN)}</text>'


def _squares(grid: _Grid, cells: Sequence[tuple[int, int, object]], top: float) -> Iterator[str]:
    """All squares of one shade are one path: thousands of elements would make a page slow."""
    paths: dict[str, list[str]] = {}
    side = grid.size - 1
    for column, row, value in cells:
        x, y = grid.left + column * grid.size, grid.top + row * grid.size
        style = _shade(value / top) if plottable(value) else f'fill="none" stroke="{RULE}"'
        paths.setdefault(style, []).append(f"M{x:.1f} {y:.1f}h{side:.1f}v{side:.1f}h-{side:.1f}z")
    return (f'<path {style} d="{"".join(drawn)}"/>' for style, drawn in paths.items())


def _told(grid: _Grid, column: int, row: int, value: object, top: float) -> str:
    """The number in its square, where there is room for it; a cross where there is none."""
    x, y = grid.left + (column + 0.5) * grid.size, grid.top + (row + 0.5) * grid.size + 4
    if not plottable(value):
        return label(x, y, "×", anchor="middle", fill=MUTED if value is None else ALARM)
    text = number(value)
    if len(text) * 6.5 > grid.size:
        return ""
    fill = "var(--paper, #ffffff)" if abs(value / top) > 0.55 else INK
    return label(x, y, text, anchor="middle", fill=fill)


def _shade(share: float) -> str:
    """The color of a value that is `share` (-1 to 1) of the largest one."""
    shade = round(abs(share) * _SHADES) / _SHADES
    return f'fill="{SERIES[0] if share >= 0 else SERIES[1]}" fill-opacity="{0.04 + 0.96 * shade:.2f}"'


def _legend(x: float, y: float, fine: Sequence[float], top: float) -> Iterator[str]:
    low = -1 if any(value < 0 for value in fine) else 0
    high = 1 if any(value > 0 for value in fine) or not low else 0
    yield label(x, y + 10, number(low * top))
    for step in range(_STEPS):
        shade = _shade(low + (high - low) * (step + 0.5) / _STEPS)
        yield f'<rect x="{x + 60 + step * 9:.1f}" y="{y:.1f}" width="9" height="10" {shade}/>'
    yield label(x + 66 + _STEPS * 9, y + 10, number(high * top))
