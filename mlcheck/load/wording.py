"""Numbers as they are read: three significant digits, no exponents, units spelled."""

from __future__ import annotations

import math

from mlcheck.load.binomial import Interval


def number(value: float) -> str:
    """`0.0123`, `4.56`, `789`, `1,234,567`; a question mark for what is unknown."""
    if math.isnan(value):
        return "?"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    digits = 0 if value == 0 else min(6, max(0, 2 - math.floor(math.log10(abs(value)))))
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def cell(value: float) -> float:
    """A number for a table: large ones whole, so that none is written with an exponent."""
    return float(round(value)) if abs(value) >= 1000 else value


def milliseconds(value: Interval) -> str:
    """`12.3 ms [11.9, 13]`."""
    return f"{number(value.value)} ms [{number(value.low)}, {number(value.high)}]"


def percent(value: Interval) -> str:
    """`91.2% [88.7%, 93.4%]`."""
    return f"{value.value:.2%} [{value.low:.2%}, {value.high:.2%}]"
