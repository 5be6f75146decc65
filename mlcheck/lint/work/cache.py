"""What a run found out, kept for the next: outlines by the content of a file, answers by all that they rest on.

One JSON file with its own checksum, replaced whole: a damaged one counts as empty, of two runs at once the later
stays. Nothing in it is ever executed. A folder that cannot be written to is no reason to complain.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from mlcheck import __version__
from mlcheck.core.atomic import replace_file
from mlcheck.core.digest import digest
from mlcheck.core.finding import Finding, Location
from mlcheck.lint.files.outlines import Group, Import, Outline
from mlcheck.lint.work.answers import Asked

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
_MOST_BYTES = 32_000_000

Answer = tuple[str, Finding]
Kept = tuple[list[Answer], dict[str, int]]


class Cache:
    """The cache in one folder; without a folder it remembers nothing."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._path = os.path.join(folder, f"lint-{sys.version_info.major}.{sys.version_info.minor}.json")
        self._outlines: dict[str, Any] = {}
        self._answers: dict[str, Any] = {}
        self._groups: dict[str, Any] = {}
        self._checks: list[list[str]] = []
        self._used: set[str] = set()
        self._changed = False
        self._version = ""
        if folder:
            self._version = _version()
            self._load()

    def checks(self) -> list[Asked]:
        """The checks of this version, without a module of them loaded; empty where they were never listed."""
        return [Asked(rule, looks_at) for rule, looks_at in self._checks]

    def keep_checks(self, checks: Sequence[Asked]) -> None:
        self._checks = [[check.rule, check.looks_at] for check in checks]
        self._changed = True

    def outline(self, digest: str) -> Outline | None:
        """The outline of the file with that content."""
        kept = self._outlines.get(digest)
        if kept is None:
            return None
        self._used.add(digest)
        imports, defined, called = kept
        made = tuple(Import(level, module, tuple(names)) for level, module, names in imports)
        return Outline(made, frozenset(defined), frozenset(called))

    def keep_outline(self, digest: str, outline: Outline) -> None:
        self._outlines[digest] = [outline.imports, sorted(outline.defined), sorted(outline.called)]
        self._used.add(digest)
        self._changed = True

    def groups(self, key: str) -> list[Group] | None:
        """How the files of a run fall into groups."""
        kept = self._groups.get(key)
        if kept is None:
            return None
        self._used.add(key)
        return [Group(tuple(members), frozenset(called)) for members, called in kept]

    def keep_groups(self, key: str, groups: Sequence[Group]) -> None:
        self._groups[key] = [[found.members, sorted(found.called_elsewhere)] for found in groups]
        self._used.add(key)
        self._changed = True

    def answers(self, key: str) -> Kept | None:
        """The findings of a group, and how much of each kind was seen."""
        kept = self._answers.get(key)
        if kept is None:
            return None
        self._used.add(key)
        findings, seen = kept
        return [_thawed(entry) for entry in findings], seen

    def keep_answers(self, key: str, found: Sequence[Answer], seen: dict[str, int]) -> None:
        self._answers[key] = [[_frozen(rule, finding) for rule, finding in found], seen]
        self._used.add(key)
        self._changed = True

    def _load(self) -> None:
        import json

        try:
            with open(self._path, "rb") as file:
                checksum, _, body = file.read().partition(b"\n")
            if checksum.decode("ascii", "replace") != self._checksum(body):
                return
            self._outlines, self._answers, self._groups, self._checks = json.loads(body)
        except (OSError, ValueError):
            return

    def save(self) -> None:
        """Write what is new; what was not asked for in this run goes first when there is too much."""
        if not (self._folder and self._changed):
            return
        body = self._body()
        while len(body) > _MOST_BYTES:
            if not (sum(_forget(kept, self._used) for kept in (self._outlines, self._answers, self._groups))):
                return
            body = self._body()
        try:
            _prepare(self._folder)
            replace_file(self._path, self._checksum(body).encode() + b"\n" + body)
        except OSError:
            return

    def _body(self) -> bytes:
        import json

        return json.dumps([self._outlines, self._answers, self._groups, self._checks], separators=(",", ":")).encode()

    def _checksum(self, body: bytes) -> str:
        """Over the version too: what another one found out counts for nothing."""
        return digest(self._version.encode() + body)


def key(*parts: object) -> str:
    """A name for all that an answer rests on, but for the version of mlcheck: that is in the checksum."""
    import json

    return digest(json.dumps(parts).encode("utf-8", "surrogatepass"))


def _version() -> str:
    """This version and Python's; also when each source was written, so that a changed rule is asked again."""
    written = [state for part in ("core", "lint") for state in _sources(os.path.join(_PACKAGE, part))]
    return f"{__version__} {sys.version} {sorted(written)}"


def _sources(folder: str) -> Iterator[tuple[str, int, int]]:
    """The name, time and size of each source below a folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                state = entry.stat()
                yield entry.name, state.st_mtime_ns, state.st_size
            elif entry.name != "__pycache__" and entry.is_dir():
                yield from _sources(entry.path)


def _forget(kept: dict[str, Any], used: set[str]) -> int:
    """Drop the older half of what was not used; how many that were."""
    idle = [name for name in kept if name not in used]
    for name in idle[: (len(idle) + 1) // 2]:
        del kept[name]
    return len(idle)


def _prepare(folder: str) -> None:
    """The folder, kept out of version control and of backups."""
    os.makedirs(folder, exist_ok=True)
    for name, text in (
        (".gitignore", "# Made by mlcheck: may be deleted at any time.\n*\n"),
        ("CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n"),
    ):
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            with open(path, "w", encoding="ascii") as file:
                file.write(text)


def _frozen(rule: str, finding: Finding) -> list[Any]:
    places = [_place(place) for place in (finding.location, *finding.related)]
    return [rule, finding.message, finding.help, finding.numbers, places]


def _place(place: Location) -> list[Any]:
    return [place.path, place.line, place.column, place.end_line, place.end_column, place.symbol]


def _thawed(entry: list[Any]) -> Answer:
    rule, message, help_, numbers, (place, *related) = entry
    return rule, Finding(message, Location(*place), help_, numbers, tuple(Location(*other) for other in related))
