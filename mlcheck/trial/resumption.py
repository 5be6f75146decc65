"""A program that was started again where its first run had left files, and what it made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Loaded:
    """A file of its own that the program reads with `torch.load`: its path, where it lies now, and who reads it."""

    path: str
    lies_at: str
    place: tuple[str, int]


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a program waits: the lines of its own that are under way, and the whole numbers of its variables."""

    lines: tuple[tuple[str, int], ...] = ()
    numbers: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Resumption:
    """What it loaded before its first training step, and where it stands there: now, and without the files."""

    loaded: Sequence[Loaded]
    now: Standing
    at_first: Standing
