"""Curves over steps: labels on the lines, reference lines dashed, gaps where values are not finite."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeGuard

from mlcheck.core.finding import Figure
from mlcheck.core.plural import plural
from mlcheck.report.digest import number
from mlcheck.report.svg import ALARM, INK, RULE, SERIES, WIDTH, Scale, label, line, picture, plottable, scale, tick_text

_HEIGHT, _TOP, _BOTTOM, _LEFT, _RIGHT = 250, 26, 210, 58, 486
_SHOWN_SERIES = 24
_LABELLED = 12
_DOTTED = 12
_BUCKETS = 200
_DASHES = ("", "6 3", "2 3")


@dataclass(frozen=True, slots=True)
class _Curve:
    name: str
    points: list[tuple[float, object]]
    color: str
    dash: str


def curves(figure: Figure) -> str:
    """SVG of a figure of kind `curves`. Raises KeyError or TypeError on data of another form."""
    data = figure.data
    log = bool(data.get("log_y"))
    drawn = [_curve(position, entry) for position, entry in enumerate(data["series"][:_SHOWN_SERIES])]
    lines = [entry for entry in data.get("lines", ()) if _fits(entry["y"], log)]
    xs = [x for curve in drawn for x, _ in curve.points]
    ys = [y for curve in drawn for _, y in curve.points if _fits(y, log)] + [entry["y"] for entry in lines]
    marks = [entry for entry in data.get("marks", ()) if plottable(entry["x"])]
    log_x = bool(data.get("log_x")) and bool(xs) and min(xs) > 0
    across = scale(xs or [0.0, 1.0], _LEFT, _RIGHT, padding=0.0, log=log_x)
    up = scale(ys, _BOTTOM, _TOP, log=log)
    parts = [
        *_axes(
            across,
            up,
            data.get("x_label", "") + (" (log)" if log_x else ""),
            data.get("y_label", "") + (" (log)" if log else ""),
            whole=len(set(xs)) > 1 and not log_x and all(x == int(x) for x in xs),
        ),
        *(part for curve in drawn for part in _drawing(curve, across, up)),
        *_references(lines, up),
        *_marks([entry for entry in marks if xs and min(xs) <= entry["x"] <= max(xs)], across),
        *_names(drawn, up),
    ]
    left = len(data["series"]) - len(drawn)
    if left > 0:
        parts.append(label(_RIGHT + 8, _BOTTOM + 14, f"{left} more not drawn"))
    return picture(figure.title, _description(drawn, log), _HEIGHT, parts)


def _fits(value: object, log: bool) -> TypeGuard[float]:
    return plottable(value) and (not log or value > 0)


def _curve(position: int, entry: dict[str, Any]) -> _Curve:
    ys = entry["y"]
    xs = entry.get("x") or range(len(ys))
    points = [(float(x), y) for x, y in zip(xs, ys, strict=False) if plottable(x)]
    cycle, place = divmod(position, len(SERIES))
    return _Curve(str(entry.get("name", "")), points, SERIES[place], _DASHES[cycle % len(_DASHES)])


def _axes(across: Scale, up: Scale, x_label: str, y_label: str, whole: bool) -> Iterator[str]:
    """Of `whole` numbers (steps, layers) only whole ones have a tick."""
    for tick in up.ticks():
        yield line(_LEFT, up(tick), _RIGHT, up(tick), RULE)
        yield label(_LEFT - 6, up(tick) + 4, tick_text(tick), anchor="end")
    for tick in (tick for tick in across.ticks(6) if tick == int(tick) or not whole):
        yield line(across(tick), _BOTTOM, across(tick), _BOTTOM + 4, RULE)
        yield label(across(tick), _BOTTOM + 16, tick_text(tick), anchor="middle")
    yield line(_LEFT, _BOTTOM, _RIGHT, _BOTTOM, RULE)
    yield label(_RIGHT, _BOTTOM + 32, x_label, anchor="end", fill=INK)
    yield label(0, 12, y_label, fill=INK)


def _references(lines: list[dict[str, Any]], up: Scale) -> Iterator[str]:
    for entry in lines:
        y = up(entry["y"])
        yield line(_LEFT, y, _RIGHT, y, INK, "3 4")
        yield label(_LEFT + 6, y - 4, f"{entry['name']} = {number(entry['y'])}", fill=INK)


def _marks(marks: list[dict[str, Any]], across: Scale) -> Iterator[str]:
    for entry in marks:
        x = across(entry["x"])
        right = x > (_LEFT + _RIGHT) / 2
        yield line(x, _TOP - 8, x, _BOTTOM, INK, "3 4")
        yield label(
            x + (-5 if right else 5), _TOP - 2, str(entry["name"]), anchor="end" if right else "start", fill=INK
        )


def _drawing(curve: _Curve, across: Scale, up: Scale) -> Iterator[str]:
    """The line in unbroken runs, few points as dots; a cross at the edge marks each run that cannot be drawn."""
    dash = f' stroke-dasharray="{curve.dash}"' if curve.dash else ""
    style = f'fill="none" stroke="{curve.color}" stroke-width="1.6" stroke-linejoin="round"{dash}'
    for _, group in groupby(curve.points, key=lambda point: _fits(point[1], up.log)):
        run = list(group)
        drawn = _thinned([(x, y) for x, y in run if _fits(y, up.log)])
        if drawn:
            at = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in drawn)
            yield f'<polyline points="{at}" {style}/>'
        if len(drawn) <= _DOTTED:
            for x, y in drawn:
                yield f'<circle cx="{across(x):.1f}" cy="{up(y):.1f}" r="2.5" fill="{curve.color}"/>'
        if not drawn:
            x, y = across(run[0][0]), _TOP if run[0][1] == math.inf else _BOTTOM
            yield f'<path d="M{x - 4:.1f} {y - 4}l8 8m0 -8l-8 8" stroke="{ALARM}" stroke-width="1.6"/>'


def _thinned(run: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most two points a bucket, its lowest and its highest: spikes stay."""
    if len(run) <= 2 * _BUCKETS:
        return run
    kept = {0, len(run) - 1}
    for bucket in range(_BUCKETS):
        inside = range(bucket * len(run) // _BUCKETS, (bucket + 1) * len(run) // _BUCKETS)
        kept.add(min(inside, key=lambda position: run[position][1]))
        kept.add(max(inside, key=lambda position: run[position][1]))
    return [run[position] for position in sorted(kept)]


def _names(drawn: list[_Curve], up: Scale) -> Iterator[str]:
    """Each name beside the end of its line, pushed apart where they would touch."""
    ends = [([y for _, y in curve.points if _fits(y, up.log)][-1:], curve) for curve in drawn]
    shown = sorted(((up(y), curve) for last, curve in ends for y in last), key=lambda pair: pair[0])[:_LABELLED]
    spots: list[float] = []
    for y, _ in shown:
        spots.append(max(y, spots[-1] + 13) if spots else max(y, _TOP))
    overrun = max(0.0, spots[-1] - _BOTTOM) if spots else 0.0
    for spot, (y, curve) in zip(spots, shown, strict=True):
        at = spot - overrun
        if abs(at - y) > 2:
            yield line(_RIGHT, y, _RIGHT + 7, at, curve.color)
        yield label(_RIGHT + 9, at + 4, curve.name, fill=curve.color, limit=(WIDTH - _RIGHT - 10) // 6)


def _description(drawn: list[_Curve], log: bool) -> str:
    return "; ".join(_spoken(curve, log) for curve in drawn[:_LABELLED])


def _spoken(curve: _Curve, log: bool) -> str:
    fine = [y for _, y in curve.points if _fits(y, log)]
    broken = len(curve.points) - len(fine)
    told = f"{curve.name} from {number(fine[0])} to {number(fine[-1])}" if fine else f"{curve.name} has nothing to draw"
    return told + (f", {plural(broken, 'value')} not drawable" if broken else "")
