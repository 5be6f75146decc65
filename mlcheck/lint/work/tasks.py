"""What is asked of the rules about one group of files, and what they said: plain data that another process can take."""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import Enum

from mlcheck.core.dataclasses import dataclass, field
from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.files.outlines import Group
from mlcheck.lint.versions import Versions
from mlcheck.lint.work.answers import Failure
from mlcheck.lint.work.cache import Answer


class Part(Enum):
    """Which rules are answered: all, those that need the program to be interpreted, or those that do not."""

    ALL = "all"
    EVENTS = "events"
    SITES = "sites"


class Task(NamedTuple):
    """Ask `rules` (None: all), or those of them in one part, about the files of a group."""

    group: Group
    rules: Collection[str] | None
    torch: Versions
    part: Part = Part.ALL


class Piece(NamedTuple):
    """The task at this position of a list, or one part of it."""

    position: int
    task: Task


Done = Callable[[Task], None]


@dataclass(frozen=True, slots=True)
class Seen:
    """How many things of each kind were there to judge, by the words of the checks' LOOKS_AT.

    `events` counts those that interpreting the program brought, `told` what each rule says it looked at.
    """

    events: dict[str, int] = field(default_factory=dict)
    told: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """Both together, by name. What a rule says counts for more, and what a later one says for most."""
        counts = dict(self.events)
        for rule in sorted(self.told):
            counts |= self.told[rule]
        return dict(sorted(counts.items()))


@dataclass(slots=True)
class Said:
    """Findings and mlcheck's own failures by rule ("" for the interpreter); what was there to judge.

    `left` are rules that this part could not answer.
    """

    answers: list[Answer] = field(default_factory=list)
    failures: list[tuple[str, Failure]] = field(default_factory=list)
    seen: Seen = Seen()
    left: list[str] = field(default_factory=list)

    def joined(self, other: Said) -> Said:
        """With what another part of the rules said of the same files."""
        return Said(
            sorted(self.answers + other.answers, key=lambda answer: (answer[1].location, answer[0])),
            self.failures + other.failures,
            Seen(self.seen.events or other.seen.events, self.seen.told | other.seen.told),
            self.left + other.left,
        )
