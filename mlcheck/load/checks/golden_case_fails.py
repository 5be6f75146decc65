"""Judges the must-pass cases: all of them pass, or the launch does not."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding
from mlcheck.core.outcome import Outcome
from mlcheck.load.cases import GoldenRun


def check(run: GoldenRun) -> Verdict:
    failed = [case for case in run.cases if case.told]
    rows = [[case.name, "FAILED" if case.told else "passed", case.told] for case in run.cases]
    table = Figure("table", "Must-pass cases", {"columns": ["case", "result", "what differs"], "rows": rows})
    summary = f"{len(run.cases) - len(failed)} of {len(run.cases)} must-pass cases pass, each in a fresh process"
    if not failed:
        return Verdict(Outcome.PASS, summary, figures=(table,), looked_at=len(run.cases))
    findings = tuple(Finding(f"case {case.name!r} ({case.source}): {case.told}") for case in failed)
    trace = next((case.traceback for case in failed if case.traceback), "")
    return Verdict(Outcome.FAIL, summary, "", findings, (table,), looked_at=len(run.cases), traceback=trace)
