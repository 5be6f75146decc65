"""Judges whether every line of the query files is a query."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.load.query_files import QueryFiles

_SHOWN = 20


def check(files: QueryFiles) -> Verdict:
    if not files.lines:
        return Verdict(Outcome.SKIP, reason="no query file is given: --queries")
    if not files.broken:
        return Verdict(
            Outcome.PASS,
            f"{plural(files.lines, 'line')} of the query files, and all are queries",
            looked_at=files.lines,
        )
    told = f"{len(files.broken):,} of {plural(files.lines, 'line')} of the query files cannot be read and were left out"
    help_ = "fix the line, or what writes it: the service was measured with the others"
    findings = tuple(Finding(line, help=help_) for line in files.broken[:_SHOWN])
    return Verdict(Outcome.FAIL, told, findings=findings, looked_at=files.lines)
