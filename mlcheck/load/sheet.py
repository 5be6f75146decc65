"""The sheet for blind side-by-side judgements: one HTML file for the raters, and the key to it for nobody but you."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from mlcheck.load.queries import BadQueries, read_lines

_KEYS = ("id", "query", "new", "live")
_CHOICES = (
    ("left", "left is better"),
    ("tie", "equally good"),
    ("both-bad", "both bad"),
    ("right", "right is better"),
)
_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True, slots=True)
class Pair:
    """One query with the answers of both versions, as people will read them."""

    name: str
    query: str
    new: str
    live: str


def read_pairs(path: Path) -> list[Pair]:
    """The pairs of a JSON Lines file with `query`, `new`, `live` and optionally `id`. Raises BadQueries."""
    pairs: list[Pair] = []
    seen: dict[str, int] = {}
    for line, row in read_lines(path):
        unknown = [key for key in row if key not in _KEYS]
        missing = [key for key in _KEYS[1:] if key not in row]
        if unknown or missing:
            fault = f"unknown key `{unknown[0]}`" if unknown else f"has no `{missing[0]}`"
            raise BadQueries(f"{path}:{line}: {fault}; a line holds {', '.join(_KEYS)}")
        name = str(row.get("id", f"line {line}"))
        if name in seen:
            raise BadQueries(f"{path}:{line}: the id {name!r} is taken by line {seen[name]}")
        seen[name] = line
        pairs.append(Pair(name, *(_text(row[key]) for key in _KEYS[1:])))
    if not pairs:
        raise BadQueries(f"{path}: holds no pair; write lines like {{'query': ..., 'new': ..., 'live': ...}}")
    return pairs


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)


def make_sheet(pairs: Sequence[Pair], seed: int) -> tuple[str, str]:
    """The sheet as HTML and its key as JSON: items in random order, the new version left in half of them.

    Pairs with equal answers are left out, and named in the key: they are ties whoever looks.
    """
    draw = random.Random(seed)  # noqa: S311 - blindness of raters, not secrecy
    shown = [pair for pair in pairs if pair.new != pair.live]
    draw.shuffle(shown)
    sides = ["left", "right"] * (len(shown) // 2) + [draw.choice(("left", "right"))] * (len(shown) % 2)
    draw.shuffle(sides)
    items = "\n".join(_item(f"i{number}", pair, side) for number, (pair, side) in enumerate(zip(shown, sides), 1))
    key = {
        "new_is": {f"i{number}": side for number, side in enumerate(sides, 1)},
        "names": {f"i{number}": pair.name for number, pair in enumerate(shown, 1)},
        "equal": [pair.name for pair in pairs if pair.new == pair.live],
        "seed": seed,
    }
    template = (_TEMPLATES / "sheet.html").read_text(encoding="utf-8")
    page = template.replace("{{ items }}", items).replace("{{ count }}", str(len(shown)))
    return page, json.dumps(key, indent=1, ensure_ascii=False) + "\n"


def _item(name: str, pair: Pair, side: str) -> str:
    left, right = (pair.new, pair.live) if side == "left" else (pair.live, pair.new)
    choices = "".join(
        f'<label><input type="radio" name="{name}" value="{value}"> {told}</label>' for value, told in _CHOICES
    )
    return (
        f'<section id="{name}"><p class="query">{escape(pair.query)}</p><div class="pair"><pre>{escape(left)}</pre>'
        f'<pre>{escape(right)}</pre></div><div class="choices">{choices}</div></section>'
    )
