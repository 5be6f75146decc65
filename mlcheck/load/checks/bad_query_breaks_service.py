"""Judges what broken queries do to the process, and to whoever asks next."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.load.cases import Conduct


def check(conduct: Conduct) -> Verdict:
    if not conduct.broken:
        return Verdict(Outcome.SKIP, reason="there is no query file to make broken queries of")
    harmful = [case for case in conduct.broken if case.told]
    rows = [[case.name, case.note or "no answer", case.told or "as before"] for case in conduct.broken]
    columns = ["broken query", "what came", "afterwards"]
    table = Figure("table", "Broken queries", {"columns": columns, "rows": rows})
    refused = sum(case.note.startswith("refused") for case in conduct.broken)
    told = f"{plural(len(conduct.broken), 'broken query')}: {refused} refused with an error, {len(rows) - refused} not"
    if not harmful:
        summary = f"{told}; each time the next good query got its answer"
        return Verdict(Outcome.PASS, summary, figures=(table,), looked_at=len(conduct.broken))
    findings = tuple(
        Finding(f"a query with {case.name}: {case.told}", help="check queries before the model sees them")
        for case in harmful
    )
    trace = next((case.traceback for case in harmful if case.traceback), "")
    return Verdict(Outcome.FAIL, told, "", findings, (table,), looked_at=len(conduct.broken), traceback=trace)
