"""Known and accepted findings: a file that hides them until they are fixed, and then says so.

A finding is told by its rule, its file, the function it is in and the text of its line, not by the number of the
line: what is added or removed above it changes nothing.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from mlcheck.core.atomic import replace_file
from mlcheck.core.dataclasses import replace
from mlcheck.core.digest import digest
from mlcheck.core.finding import Finding
from mlcheck.core.mistake import Mistake
from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.core.report import Result
from mlcheck.lint.select import LintSettings

_MOST_CODE = 200


class BadBaseline(Mistake):
    """A baseline that is missing or that mlcheck has not written; the message says what to do."""


class Known(NamedTuple):
    """One finding of the baseline. Path and code are for those who read the file."""

    fingerprint: str
    rule: str
    path: str
    code: str


class Fingerprints:
    """Gives each finding of a run its fingerprint; the same text once more in the same function gets the next one."""

    def __init__(self, root: str) -> None:
        self._root = os.path.abspath(root)
        self._seen: Counter[tuple[str, str, str, str]] = Counter()

    def path(self, path: str) -> str:
        return os.path.relpath(os.path.abspath(path), self._root).replace(os.sep, "/")

    def mark(self, rule: str, finding: Finding, lines: Sequence[str]) -> tuple[Finding, Known]:
        """The finding with its fingerprint, and how a baseline writes it. `lines` are those of its file."""
        place = finding.location
        line = lines[place.line - 1] if 0 < place.line <= len(lines) else ""
        code = " ".join(line.split())[:_MOST_CODE]
        same = (rule, self.path(place.path), place.symbol, code)
        self._seen[same] += 1
        text = "\0".join((*same, str(self._seen[same])))
        fingerprint = digest(text.encode("utf-8", "surrogatepass"))
        return replace(finding, fingerprint=fingerprint), Known(fingerprint, rule, same[1], code)


class Baseline:
    """What a file of known findings hides, and what is no longer there."""

    def __init__(self, path: str, known: Sequence[Known] = ()) -> None:
        self.path = path
        self._known = {entry.fingerprint: entry for entry in known}
        self._met: set[str] = set()

    def hides(self, fingerprint: str) -> bool:
        """Whether the finding is known; it counts as still there."""
        if fingerprint in self._known:
            self._met.add(fingerprint)
            return True
        return False

    def fixed(self, rules: Collection[str], files: Collection[str], root: str) -> list[Known]:
        """Entries whose rule was asked and whose file was read, or is gone, and which were not met."""
        return [
            entry
            for entry in self._known.values()
            if entry.fingerprint not in self._met
            and entry.rule in rules
            and (entry.path in files or not os.path.exists(os.path.join(root, entry.path)))
        ]

    def notices(self, fixed: Sequence[Known]) -> Iterator[str]:
        if self._met:
            yield f"{self.path} hides {plural(len(self._met), 'finding')}"
        if fixed:
            places = ", ".join(dict.fromkeys(f"{entry.rule} in {entry.path}" for entry in fixed[:3]))
            more = f" and {len(fixed) - 3} more" if len(fixed) > 3 else ""
            told = f"{self.path}: {plural(len(fixed), 'finding')} fixed ({places}{more})"
            yield f"{told}: `--write-baseline` takes {'it' if len(fixed) == 1 else 'them'} out"

    def renewed(self, found: Sequence[Known], fixed: Sequence[Known]) -> list[Known]:
        """What is there now, and what this run had no reason to look at."""
        gone = {entry.fingerprint for entry in fixed}
        kept = {name: entry for name, entry in self._known.items() if name not in gone}
        return sorted({**kept, **{entry.fingerprint: entry for entry in found}}.values(), key=_by_place)


def settle(
    results: Sequence[Result], settings: LintSettings, lines: Mapping[str, Sequence[str]]
) -> tuple[list[Result], list[str]]:
    """Results about other files than code, with fingerprints and without what is known; and what is to be told.

    `lines` are those of each file that was looked at.
    """
    baseline, marks = opened(settings), Fingerprints(settings.root)
    settled, found = [], []
    for result in results:
        new = []
        for finding in result.findings:
            made, entry = marks.mark(result.rule, finding, lines.get(finding.location.path, ()))
            found.append(entry)
            if not (baseline.hides(made.fingerprint) or settings.write_baseline):
                new.append(made)
        known = len(result.findings) - len(new)
        told = f"nothing new; {plural(known, 'finding')} known in the baseline"
        hidden = replace(result, outcome=Outcome.PASS, summary=told) if known and not new else result
        settled.append(replace(hidden, findings=tuple(new)))
    fixed = baseline.fixed([result.rule for result in results], {marks.path(path) for path in lines}, settings.root)
    if not settings.write_baseline:
        return settled, list(baseline.notices(fixed))
    if not (found or fixed):
        return settled, []
    renewed = baseline.renewed(found, fixed)
    write_baseline(settings.baseline, renewed)
    return settled, [f"{settings.baseline}: written with {plural(len(renewed), 'known finding')}"]


def opened(settings: LintSettings) -> Baseline:
    """The known findings; none when they are about to be written for the first time."""
    if not settings.baseline or (settings.write_baseline and not os.path.exists(settings.baseline)):
        return Baseline(settings.baseline)
    return read_baseline(settings.baseline)


def read_baseline(path: str) -> Baseline:
    """Raises BadBaseline for a file that is missing or that is no baseline."""
    import json

    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
        return Baseline(path, [Known(**entry) for entry in data["findings"]])
    except FileNotFoundError:
        raise BadBaseline(f"{path}: there is no such baseline: `mlcheck lint --write-baseline` makes one") from None
    except OSError as error:
        raise BadBaseline(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError) as error:
        raise BadBaseline(f"{path}: this is no baseline of mlcheck: write it again with `--write-baseline`") from error


def write_baseline(path: str, known: Sequence[Known]) -> None:
    """Replace the file whole, one finding a line, so that a review shows what came and what went."""
    import json

    lines = ",\n".join(f"  {json.dumps(entry._asdict(), ensure_ascii=False)}" for entry in known)
    try:
        replace_file(path, f'{{"mlcheck-baseline": 1, "findings": [\n{lines}\n]}}\n')
    except OSError as error:
        raise BadBaseline(f"{path}: cannot be written: {error.strerror}") from error


def _by_place(entry: Known) -> tuple[str, str, str, str]:
    return entry.path, entry.rule, entry.code, entry.fingerprint
