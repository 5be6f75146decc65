"""What a check has to say: a finding, the place it is about, and the figures that prove it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mlcheck.core.dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A place in the code or in the model. Lines and columns count from 1; 0 means unknown."""

    path: str = ""
    line: int = 0
    column: int = 0
    end_line: int = 0
    end_column: int = 0
    symbol: str = ""

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.path, self.line, self.column) if part)
        if self.symbol:
            return f"{place} ({self.symbol})" if place else self.symbol
        return place


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure as plain data, drawn by the renderers. `data` by kind:

    - `curves`: `series` [{name, y, x?}], optional `lines` [{name, y}], `marks` [{name, x}], `x_label`, `y_label`,
      `log_x`, `log_y`
    - `bars`: `labels`, `values`, optional `unit`
    - `matrix`: `rows`, `columns` (labels), `values` (rows of numbers or None)
    - `images`: `tiles` [{png (base64), caption}]
    - `table`: `columns`, `rows` (lists of str or numbers)
    - `text`: `text`
    """

    kind: str
    title: str
    data: dict[str, Any]


LIMIT_COLUMNS = ("limit", "allowed", "measured", "in parallel", "verdict")  # workers, connections or users
_AGAINST_LIMITS = "Against the limits"


def limit_table(rows: list[list[str]]) -> Figure:
    """Numbers beside their limits: short, and shown in every form of the report."""
    return Figure("table", _AGAINST_LIMITS, {"columns": list(LIMIT_COLUMNS), "rows": rows})


def limit_rows(figure: Figure) -> list[list[str]]:
    """The rows of such a table; none of any other figure."""
    rows = figure.data.get("rows") if figure.kind == "table" and figure.title == _AGAINST_LIMITS else None
    if not isinstance(rows, list):
        return []
    return [[str(cell) for cell in row] for row in rows if isinstance(row, list) and len(row) == len(LIMIT_COLUMNS)]


@dataclass(frozen=True, slots=True)
class Finding:
    """One defect at one place: what is wrong in `message`, what to do about it in `help`.

    `fingerprint` tells the same defect in another run, though lines above it came or went; empty where unknown.
    """

    message: str
    location: Location = Location()
    help: str = ""
    numbers: dict[str, float] = field(default_factory=dict)
    related: tuple[Location, ...] = ()
    fingerprint: str = ""


def first_of_each_line(findings: Iterable[Finding]) -> Iterator[Finding]:
    """In order, without findings on a line that an earlier one covers: what is found twice is reported once."""
    told: set[tuple[str, int]] = set()
    for finding in findings:
        line = (finding.location.path, finding.location.line)
        if line not in told:
            told.add(line)
            yield finding
