"""Figures as HTML: curves, bars and matrices as SVG, the rest as images, tables and text.

Colours are CSS variables with a fallback, so that a drawing follows the page's light or dark scheme and
still stands alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from typing import Any

from mlcheck.core.finding import Figure
from mlcheck.core.plural import plural
from mlcheck.report.digest import number
from mlcheck.report.safe import block, one_line
from mlcheck.report.svg_bars import bars
from mlcheck.report.svg_curves import curves
from mlcheck.report.svg_matrix import matrix

_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_PNG = "iVBORw0KGgo"  # how the signature of a PNG looks in base64
_MOST_PNG = 2_000_000
_SHOWN_TILES = 64
_SHOWN_ROWS = 100
_SHOWN_COLUMNS = 40


def draw(figure: Figure) -> str:
    """One figure with its title as safe HTML; data of the wrong form becomes a sentence, never an error."""
    title = escape(one_line(figure.title, 200))
    try:
        body = _DRAWERS[figure.kind](figure)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError) as error:
        body = f"<p>This figure could not be drawn: {escape(one_line(f'{type(error).__name__} {error}', 200))}</p>"
    return f'<figure class="{_kind(figure)}"><figcaption>{title}</figcaption>{body}</figure>'


def _kind(figure: Figure) -> str:
    return figure.kind if figure.kind in _DRAWERS else "unknown"


def _images(figure: Figure) -> str:
    tiles = figure.data["tiles"]
    cells = "".join(_tile(tile) for tile in tiles[:_SHOWN_TILES])
    return f'<div class="sheet">{cells}</div>{_left_out(len(tiles) - _SHOWN_TILES, "picture")}'


def _tile(tile: dict[str, Any]) -> str:
    caption = escape(one_line(tile.get("caption", ""), 80))
    png = "".join(tile["png"].split())
    if not (png.startswith(_PNG) and len(png) <= _MOST_PNG and _BASE64.fullmatch(png)):
        return f"<div><p>not a picture</p><span>{caption}</span></div>"
    image = f'<img loading="lazy" decoding="async" src="data:image/png;base64,{png}" alt="{caption}">'
    return f"<div>{image}<span>{caption}</span></div>"


def _table(figure: Figure) -> str:
    columns, rows = figure.data["columns"][:_SHOWN_COLUMNS], figure.data["rows"]
    head = "".join(f'<th scope="col">{_text(name)}</th>' for name in columns)
    body = "".join(f"<tr>{''.join(_cell(cell) for cell in row[:_SHOWN_COLUMNS])}</tr>" for row in rows[:_SHOWN_ROWS])
    table = f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    return table + _left_out(len(rows) - _SHOWN_ROWS, "row")


def _cell(value: object) -> str:
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return f'<td class="number">{escape(number(value))}</td>' if numeric else f"<td>{_text(value)}</td>"


def _text(value: object) -> str:
    return "–" if value is None else escape(one_line(str(value), 300))


def _plain_text(figure: Figure) -> str:
    return f"<pre>{escape(block(figure.data['text'], max_lines=200))}</pre>"


def _left_out(left: int, noun: str) -> str:
    return f"<p>{plural(left, f'more {noun}')} left out</p>" if left > 0 else ""


_DRAWERS: dict[str, Callable[[Figure], str]] = {
    "curves": curves,
    "bars": bars,
    "matrix": matrix,
    "images": _images,
    "table": _table,
    "text": _plain_text,
}
