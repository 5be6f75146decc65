"""From paths to a report: find the files, read them, ask the rules, drop what is answered, sum up."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing

from mlcheck import __version__
from mlcheck.core.catalog import Catalog
from mlcheck.core.finding import Location
from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.plural import plural
from mlcheck.core.report import Report
from mlcheck.lint.baseline import Fingerprints, Known, opened, write_baseline
from mlcheck.lint.files.discover import discover
from mlcheck.lint.files.outlines import Group, Member, Outline
from mlcheck.lint.files.reading import Buffer, Text
from mlcheck.lint.select import LintSettings, Selection
from mlcheck.lint.suppress import IDLE_COMMENTS, Suppressions
from mlcheck.lint.versions import Versions
from mlcheck.lint.work.answers import Answers, Asked
from mlcheck.lint.work.cache import Answer, Cache, Kept, key
from mlcheck.lint.work.collector import without_cycle_collector
from mlcheck.lint.work.jobs import answered
from mlcheck.lint.work.tasks import Said, Task

__all__ = ["Buffer", "LintSettings", "run_lint"]

_NOT_READ = "unreadable-file"
_LARGE = 2_000_000  # bytes of source: from there on, syntax trees are made smaller
Progress = Callable[[int, int], None]


def run_lint(
    paths: Sequence[str],
    settings: LintSettings,
    progress: Progress | None = None,
    buffer: Buffer | None = None,
) -> Report:
    """Lint the files that `paths` name. `progress` is called with the number of files done.

    With a buffer, only its findings are told, and the files at `paths` are the program around it. Raises
    MissingPath, UnknownRule, NotALintRule, BadBaseline and WorkerLost; nothing that is in a file stops the run.
    """
    started, clock = _now(), time.perf_counter()
    catalog, cache = Catalog(), Cache(settings.cache)
    checks = [check for check in _checks(cache) if check.rule in catalog]  # no rule without a page
    selection = Selection(settings, catalog, {check.rule for check in checks})
    files, notices = discover(paths, unsaved=buffer.path if buffer else "")
    subject = buffer.path if buffer else ", ".join(paths)
    texts = [Text(file, buffer.data if buffer and _same(file.path, buffer.path) else None) for file in files]
    if sum(len(text.data) for text in texts) > _LARGE:
        for text in texts:
            text.slim = True
    told = [text for text in texts if not buffer or _same(text.path, buffer.path)]
    reading = _Reading(texts, told, settings, selection, cache)
    answers = Answers(subject, len(told))
    reading.run(answers, progress)
    if not files:
        notices.append(f"{subject}: no Python files here")
    idle = list(reading.suppressions.notices(catalog, selection.rules, ran_all=not selection.narrowed))
    environment = {"mlcheck": __version__, "python": sys.version.split()[0], "files linted": str(len(told))}
    return Report(
        command="lint",
        subject=subject,
        results=tuple(answers.result(check, catalog) for check in checks if check.rule in selection.rules),
        environment=environment | ({IDLE_COMMENTS: str(len(idle))} if idle else {}),
        started=started,
        seconds=time.perf_counter() - clock,
        notices=(*notices, *idle, *reading.notices),
    )


def _checks(cache: Cache) -> list[Asked]:
    """What is asked; to load a hundred modules for it is left to those who must ask."""
    if kept := cache.checks():
        return kept
    from mlcheck.core.check import list_checks
    from mlcheck.lint import checks as package

    found = [Asked(check.rule, check.looks_at) for check in list_checks(package)]
    cache.keep_checks(found)
    return found


def _now() -> str:
    """ISO 8601 with the zone, as datetime would write it; datetime takes longer to load than a file to lint."""
    text = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    return f"{text[:-2]}:{text[-2:]}"


def _same(one: str, two: str) -> bool:
    return os.path.abspath(one) == os.path.abspath(two)


_NOTHING: Kept = ([], {})


class _Plan(NamedTuple):
    """What to ask of a group, the name of the answer in the cache, and what was kept under it."""

    task: Task
    name: str = ""
    kept: Kept | None = None


class _Bar:
    """Counts the files that are done."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0
        self._show()

    def done(self, task: Task) -> None:
        self._done += len(task.group.members)
        self._show()

    def _show(self) -> None:
        if self._progress and self._total:
            self._progress(self._done, self._total)


class _Reading:
    """One pass over the files: what is kept of it are answers and suppressions, not syntax trees.

    The program is all of `texts`; findings are told of those in `told`.
    """

    def __init__(
        self,
        texts: Sequence[Text],
        told: Sequence[Text],
        settings: LintSettings,
        selection: Selection,
        cache: Cache,
    ) -> None:
        self.suppressions = Suppressions()
        self.notices: list[str] = []
        self._texts = texts
        self._told = {text.path: text for text in told}
        self._settings, self._selection = settings, selection
        self._baseline = opened(settings)
        self._cache = cache

    def run(self, answers: Answers, progress: Progress | None) -> None:
        """Ask the selected rules about each group of files, and keep by rule what they say."""
        for text in self._told.values():
            self.suppressions.read(text.path, text.data)
        seen: Counter[str] = Counter()
        with without_cycle_collector():
            bar = _Bar(progress, len(self._texts))
            plans = [self._plan(found) for found in self._groups()]
            tasks = [plan.task for plan in plans if plan.kept is None]
            with closing(answered(self._texts, tasks, self._settings.jobs, bar.done)) as asked:
                for plan in plans:
                    if plan.kept is None:
                        seen += self._hear(plan, next(asked), answers)
                    else:
                        self._take(plan.kept[0], answers)
                        seen += Counter(plan.kept[1])
                        bar.done(plan.task)
        answers.seen = dict(seen)
        self._cache.save()
        self._mark(answers)

    def _plan(self, found: Group) -> _Plan:
        """What is to be asked of a group; with what was kept of it, which is nothing where it is not told of."""
        own = [self._texts[number] for number in found.members]
        rules = None if self._settings.cache else self._selection.rules
        torch = Versions(self._settings.target_torch, self._settings.pinned_torch)
        task = Task(found, rules, torch)
        name, kept = "", None
        if self._told.keys().isdisjoint(text.path for text in own):
            kept = _NOTHING
        elif self._settings.cache:
            members = [(text.path, text.module, text.digest) for text in own]
            name = key(torch, members, sorted(found.called_elsewhere))
            kept = self._cache.answers(name)
        for text in own if kept else ():
            text.release()
        return _Plan(task, name, kept)

    def _groups(self) -> list[Group]:
        """The files, in groups; as they were kept where no file changed, came or went."""
        if not self._settings.cache:
            from mlcheck.lint.files.grouping import group

            return group([Member(text.path, text.module, text.outline()) for text in self._texts])
        name = key([(text.path, text.module, text.digest) for text in self._texts])
        kept = self._cache.groups(name)
        if kept is None:
            from mlcheck.lint.files.grouping import group

            kept = group([Member(text.path, text.module, self._outline(text)) for text in self._texts])
            self._cache.keep_groups(name, kept)
        return kept

    def _outline(self, text: Text) -> Outline:
        kept = self._cache.outline(text.digest)
        if kept is None:
            kept = text.outline()
            self._cache.keep_outline(text.digest, kept)
        return kept

    def _hear(self, plan: _Plan, said: Said, answers: Answers) -> Counter[str]:
        """Take what the rules say of a group, and keep it; return what was there to judge."""
        for rule, failure in said.failures:
            answers.failures.setdefault(rule or _NOT_READ, []).append(failure)
        if plan.name and not said.failures:
            self._cache.keep_answers(plan.name, said.answers, said.seen.counts)
        self._take(said.answers, answers)
        return Counter(said.seen.counts)

    def _take(self, said: Sequence[Answer], answers: Answers) -> None:
        for rule, finding in said:
            place = finding.location
            if rule not in self._selection.rules or place.path not in self._told:
                continue
            if rule in self._selection.ignored_in(place.path) or self.suppressions.hides(rule, place.path, place.line):
                continue
            answers.findings.setdefault(rule, []).append(finding)

    def _mark(self, answers: Answers) -> None:
        """Give every finding its fingerprint, and take out those that the baseline knows."""
        settings, baseline = self._settings, self._baseline
        marks = Fingerprints(settings.root)
        known: list[Known] = []
        for rule, findings in answers.findings.items():
            marked = []
            for finding in sorted(findings, key=lambda finding: finding.location):
                made, entry = marks.mark(rule, finding, self._lines(finding.location))
                known.append(entry)
                if not (baseline.hides(made.fingerprint) or settings.write_baseline):
                    marked.append(made)
            answers.known[rule] = len(findings) - len(marked)
            answers.findings[rule] = marked
        if not settings.baseline:
            return
        fixed = baseline.fixed(self._selection.rules, {marks.path(path) for path in self._told}, settings.root)
        if settings.write_baseline:
            renewed = baseline.renewed(known, fixed)
            write_baseline(settings.baseline, renewed)
            self.notices.append(f"{settings.baseline}: written with {plural(len(renewed), 'known finding')}")
        else:
            self.notices += baseline.notices(fixed)

    def _lines(self, place: Location) -> Sequence[str]:
        return self._told[place.path].lines if place.path in self._told else ()
