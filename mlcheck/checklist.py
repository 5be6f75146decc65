"""Everything at once: what was read, what was seen and what was said, joined into one report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import date, datetime
from pathlib import Path

from mlcheck.core.catalog import Catalog
from mlcheck.core.report import Report, Result
from mlcheck.core.signoff import sign_off_results
from mlcheck.lint.run import LintSettings, run_lint
from mlcheck.probe.engine import ProbeOptions, run_probes


def run_checklist(
    paths: tuple[str, ...],
    lint: LintSettings,
    probe: ProbeOptions | None,
    signoff: Path,
    progress: Callable[[str, int, int], None] | None = None,
) -> Report:
    """Lint `paths`, probe the entry point where there is one, read the sign-offs.

    Without an entry point the probes are absent and a notice says so: silence is not a pass.
    """
    started, clock = datetime.now().astimezone().isoformat(timespec="seconds"), time.perf_counter()
    said = sign_off_results(Catalog(), signoff, date.today())
    read = run_lint(paths, lint, (lambda done, total: progress("lint", done, total)) if progress else None)
    notices = list(read.notices)
    seen = run_probes(probe, progress) if probe else None
    if seen is None:
        notices.append("no entry point, so nothing was run: name one (`mlcheck check model_def:Trial`) or set `entry`")
    results = (*read.results, *(seen.results if seen else ()))
    return Report(
        command="check",
        subject=probe.entry if probe else ", ".join(paths),
        results=(*results, *_unshadowed(said, results)),
        environment={**read.environment, **(seen.environment if seen else {})},
        started=started,
        seconds=time.perf_counter() - clock,
        notices=(*notices, *(seen.notices if seen else ())),
    )


def _unshadowed(said: Iterable[Result], decided: Iterable[Result]) -> list[Result]:
    """Sign-offs, less those already given by a probe that shows the evidence to sign."""
    pending = {result.rule for result in decided if result.outcome.value == "pending"}
    return [result for result in said if result.outcome.value != "pending" or result.rule not in pending]
