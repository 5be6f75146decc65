"""Everything at once: what was read, what was seen and what was said, joined into one report."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path

from mlcheck.core.catalog import Catalog
from mlcheck.core.outcome import Outcome, Profile
from mlcheck.core.plural import plural
from mlcheck.core.report import Report, Result
from mlcheck.core.signoff import UNSIGNED, sign_off_results
from mlcheck.core.source_text import is_code
from mlcheck.experiment.run import run_lint_and_configs
from mlcheck.lint.run import LintSettings
from mlcheck.probe.engine import Interrupted, ProbeOptions, run_probes


@dataclass(frozen=True, slots=True)
class Questions:
    """What people are asked: their answers' file, a team's own pages, and the profile (None: everything)."""

    signoff: Path
    team: tuple[Path, ...] = ()
    profile: Profile | None = None


def run_checklist(
    paths: tuple[str, ...],
    lint: LintSettings,
    probe: ProbeOptions | None,
    questions: Questions,
    progress: Callable[[str, int, int], None] | None = None,
) -> Report:
    """Lint `paths`, probe the entry point where there is one, read the sign-offs.

    Without an entry point the probes are absent and a notice says so: silence is not a pass. Raises Interrupted.
    """
    started, clock = datetime.now().astimezone().isoformat(timespec="seconds"), time.perf_counter()
    catalog, today = Catalog(team=questions.team), date.today()
    sign_off_results(catalog, questions.signoff, today)  # a mistake in the file is told before minutes of probing
    show = (lambda done, total: progress("lint", done, total)) if progress else None
    read = run_lint_and_configs(paths, lint, show)
    notices = list(read.notices)
    interrupted = False
    try:
        seen = run_probes(probe, progress) if probe else None
    except KeyboardInterrupt as cut:
        seen, interrupted = (cut.report if isinstance(cut, Interrupted) else None), True
    if seen is None and interrupted:
        notices.append("interrupted while the program started, so no probe was answered")
    elif seen is None:
        notices.append(
            "no entry point, so nothing was run: name one (`mlcheck check train.py`), or `mlcheck init` finds it"
        )
    environment = {**read.environment, **(seen.environment if seen else {})}
    notices += _unpinned(environment)
    results = (*_apart(read.results, seen), *seen.results) if seen else read.results
    shown = {result.rule: result for result in results if result.outcome is Outcome.PENDING}
    said = sign_off_results(catalog, questions.signoff, today, shown)
    joined, left_out = _of_profile(_joined(results, said), questions.profile)
    report = Report(
        command="check",
        subject=probe.entry if probe else ", ".join(paths),
        results=joined,
        environment=environment,
        started=started,
        seconds=time.perf_counter() - clock,
        notices=(*notices, *(seen.notices if seen else ()), *left_out),
        step_seconds=seen.step_seconds if seen else 0.0,
        ran=seen.ran if seen else (),
    )
    if interrupted:
        raise Interrupted(report)
    return report


def _apart(read: Iterable[Result], seen: Report) -> Iterator[Result]:
    """What was read, of which a probe overrules what lies in files that ran; the rest stands, as if alone."""
    ran = {os.path.realpath(path) for path in seen.ran}
    passed = {result.rule for result in seen.results if result.outcome is Outcome.PASS}
    for result in read:
        elsewhere = tuple(
            finding
            for finding in result.findings
            if is_code(finding.location.path) and os.path.realpath(finding.location.path) not in ran
        )
        if ran and elsewhere:
            yield replace(result, apart=True, findings=elsewhere if result.rule in passed else result.findings)
        else:
            yield result


def _unpinned(environment: dict[str, str]) -> list[str]:
    """What another machine, or this one next month, may get in another version."""
    loose, other = environment.get("packages not pinned"), environment.get("packages pinned otherwise")
    told = [f"no file pins a version of {loose}: another machine may get another one"] if loose else []
    return told + ([f"installed in another version than pinned: {other}"] if other else [])


def _of_profile(results: tuple[Result, ...], profile: Profile | None) -> tuple[tuple[Result, ...], tuple[str, ...]]:
    """The results of the stages that the profile asks about, and a notice of how many it leaves out."""
    if profile is None:
        return results, ()
    kept = tuple(result for result in results if result.stage in profile.stages)
    left = len({result.rule for result in results} - {result.rule for result in kept})
    return kept, (f"the profile {profile} leaves out {plural(left, 'item')}",) if left else ()


def _joined(decided: Iterable[Result], said: Iterable[Result]) -> tuple[Result, ...]:
    """All results; a question that a probe shows evidence for is asked once, with why it is open again."""
    open_again = {result.rule: result.reason for result in said if result.outcome is Outcome.PENDING}
    asked: set[str] = set()
    joined = []
    for result in decided:
        if result.outcome is Outcome.PENDING and result.rule in open_again:
            asked.add(result.rule)
            reason = open_again[result.rule]
            joined.append(result if reason == UNSIGNED else replace(result, reason=reason))
        else:
            joined.append(result)
    return (*joined, *(result for result in said if result.rule not in asked))
