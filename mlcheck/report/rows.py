"""Lines for a terminal: a label in the margin, text beside it, and how long it took at the right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import StringIO

from rich.console import Console
from rich.text import Text

from mlcheck.core.dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Row:
    """One entry of the page: a label in the margin, the text beside it, and how long it took at the right.

    `aside` follows the text on its line where it fits whole, else on a line of its own.
    """

    text: Text
    aside: Text = field(default_factory=Text)
    label: Text = field(default_factory=Text)
    margin: int = 0
    seconds: str = ""


def printed(rows: Iterable[Row], width: int, color: bool) -> str:
    """The rows as lines of at most `width` columns."""
    stream = StringIO()
    console = Console(
        file=stream,
        width=max(40, width),
        force_terminal=color,
        color_system="standard" if color else None,
        highlight=False,
        legacy_windows=False,
    )
    for row in rows:
        for line in _lines(row, console):
            console.print(line, soft_wrap=True)
    return stream.getvalue() if color else stream.getvalue().replace("…", "...")


def _lines(row: Row, console: Console) -> Iterator[Text]:
    room = console.width - row.margin - (len(row.seconds) + 1 if row.seconds else 0)
    fits = row.text.cell_len + 2 + row.aside.cell_len <= room
    text = Text.assemble(row.text, "  " if fits else "\n", row.aside) if row.aside else row.text
    for position, line in enumerate(text.wrap(console, room, overflow="fold")):
        line.rstrip()
        label = row.label if position == 0 else Text()
        full = Text.assemble(label, " " * (row.margin - label.cell_len), line)
        if row.seconds and position == 0:
            full.append(" " * (room + 1 - line.cell_len))
            full.append(row.seconds, style="dim")
        yield full
