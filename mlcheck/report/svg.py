"""What the drawings share: scales with their ticks, and SVG elements with escaped text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TypeGuard

from mlcheck.report.digest import number
from mlcheck.report.safe import one_line

WIDTH = 640
_LARGEST = 1e300
INK = "var(--ink, #1c1c1a)"
MUTED = "var(--muted, #66645e)"
RULE = "var(--rule, #dddad2)"
ALARM = "var(--fail, #b3261e)"
SERIES = tuple(
    f"var(--series-{position}, {color})"
    for position, color in enumerate(("#1f5fa8", "#b3541e", "#2e7d4f", "#7a4aa0", "#8a6d00", "#5f6368"), 1)
)


def picture(title: str, description: str, height: float, parts: Iterable[str]) -> str:
    """A whole `<svg>` that names itself to a screen reader."""
    head = f"<title>{safe(title, 200)}</title><desc>{safe(description, 600)}</desc>"
    label = safe(f"{title}: {description}", 800)
    box = f'viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" height="{height:g}"'
    return f'<svg role="img" aria-label="{label}" {box}>{head}{"".join(parts)}</svg>'


def safe(text: object, limit: int = 40) -> str:
    """`text` cut to `limit` characters and escaped for element content and attributes."""
    line = one_line(str(text), 4 * limit)
    return escape(line if len(line) <= limit else line[: limit - 1] + "…")


def label(x: float, y: float, text: object, *, anchor: str = "start", fill: str = MUTED, limit: int = 40) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}">{safe(text, limit)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, stroke: str = RULE, dash: str = "") -> str:
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}"{dashed}/>'


def margin(labels: Iterable[object], limit: int) -> float:
    """Room for the longest of `labels`, each cut to `limit` characters."""
    return 14 + 6.6 * min(limit, max((len(str(name)) for name in labels), default=0))


def plottable(value: object) -> TypeGuard[float]:
    """Whether `value` is a number a scale can hold: differences of such numbers stay finite."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -_LARGEST < value < _LARGEST


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps `low`..`high` to pixels `start`..`end`, by logarithm where `log`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, at = (math.log10(part) if self.log else part for part in (self.low, self.high, value))
        return self.start + (self.end - self.start) * ((at - low) / (high - low))

    def ticks(self, wanted: int = 5) -> list[float]:
        return log_ticks(self.low, self.high) if self.log else linear_ticks(self.low, self.high, wanted)


def scale(values: Sequence[float], start: float, end: float, *, log: bool = False, padding: float = 0.05) -> Scale:
    """A scale around finite `values` (positive ones for `log`), never of zero height."""
    low, high = (min(values), max(values)) if values else (0.1, 1.0)
    if log:
        low, high = (low / 1.6, high * 1.6) if high < low * 1.2 else (low / 1.1, high * 1.1)
        return Scale(max(low, 1e-307), high, start, end, log=True)
    room = (high - low) * padding if padding else 0.0
    if high - low <= abs(high) * 1e-12:
        room = abs(high) * 0.1 or 1.0
    return Scale(low - room, high + room, start, end)


def linear_ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten inside the range."""
    raw = (high - low) / max(1, wanted)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * 0.999)
    digits = max(0, 1 - math.floor(math.log10(step)))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(position * step, digits) for position in range(first, min(last, first + 11) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten, at most seven of them; within two decades also twice and five times those."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1.0,) if math.log10(high) - math.log10(low) > 2 else (1.0, 2.0, 5.0)
    stride = max(1, math.ceil((last - first) / 7))
    ticks = [factor * 10.0**power for power in range(first, last + 1, stride) for factor in factors]
    inside = [tick for tick in ticks if low <= tick <= high]
    return inside if len(inside) > 1 else linear_ticks(low, high)


def tick_text(value: float) -> str:
    return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e") if 0 < abs(value) < 0.001 else number(value)
