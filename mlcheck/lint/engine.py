"""From parsed files to findings: interpret the program once, then let every check read its facts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from mlcheck.core.finding import Finding
from mlcheck.lint.source import Source, Unreadable


@dataclass(frozen=True, slots=True)
class Crash:
    """mlcheck's own failure in one rule (`rule`, or "" for the interpreter) at one file; the run went on."""

    rule: str
    path: str
    traceback: str


@dataclass(frozen=True, slots=True)
class Seen:
    """How many things of each kind were judged (`backward pass`, `loss`, ...), by the words of the checks' LOOKS_AT."""

    counts: dict[str, int]


def analyse(
    sources: Sequence[Source | Unreadable], rules: Collection[str] | None = None
) -> Iterator[tuple[str, Finding] | Crash | Seen]:
    """Findings as (rule name, finding), sorted by place and without duplicates, then the crashes, then what was seen.

    `rules` limits which rules are asked; None asks all that have a check.
    """
    yield from ()
