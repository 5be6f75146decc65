"""Judges errors under load: queries that raise, workers that die or hang."""

from __future__ import annotations

from collections.abc import Iterator

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.load.binomial import wilson
from mlcheck.load.crew import Casualty
from mlcheck.load.handover import beside_its_limit
from mlcheck.load.ladder import Ladder
from mlcheck.load.limits import Limits
from mlcheck.load.survey import Survey
from mlcheck.load.wording import number


def check(ladder: Ladder, survey: Survey, limits: Limits) -> Verdict:
    phases = list(ladder.phases)
    casualties = [*survey.deaths, *(casualty for phase in phases for casualty in phase.casualties)]
    asked = sum(len(phase.samples) + phase.cut for phase in phases)
    failed = sum(phase.failed for phase in phases) + len(casualties)
    if not asked:
        return Verdict(Outcome.SKIP, reason="no query was asked under load")
    rate, allowed = wilson(failed, asked), limits.errors.max_rate
    told = f"{failed:,} of {plural(asked, 'query')} under load failed ({failed / asked:.3%})"
    allowance = f"<= {allowed:.3%}" if allowed else "none"

    def held(verdict: Verdict) -> Verdict:
        return beside_its_limit(verdict, "failing queries", allowance, f"{failed:,} of {asked:,}")

    if not failed:
        sure = (
            f"none of {plural(asked, 'query')} under load failed: 95 % sure that fewer than {number(300 / asked)} % do"
        )
        return held(Verdict(Outcome.PASS, sure, looked_at=asked))
    findings = tuple(_told(casualty, ladder) for casualty in casualties) + tuple(_errors(ladder))
    traces = [casualty.stack or casualty.stderr for casualty in casualties]
    traces += [str(error["traceback"]) for phase in phases for error in phase.errors]
    numbers = {"failed": float(failed), "asked": float(asked)}
    if not casualties and failed / asked <= allowed:
        kept = rate.high <= allowed
        reason = (
            "" if kept else f"the limit of {allowed:.3%} lies inside its 95 % interval, which ends at {rate.high:.3%}"
        )
        outcome = Outcome.PASS if kept else Outcome.INCONCLUSIVE
        return held(Verdict(outcome, told, reason, numbers=numbers, looked_at=asked))
    trace = next((trace for trace in traces if trace), "")
    return held(Verdict(Outcome.FAIL, told, "", findings, numbers=numbers, looked_at=asked, traceback=trace))


def _told(casualty: Casualty, ladder: Ladder) -> Finding:
    names = ladder.names.get(casualty.set, ())
    known = 0 <= casualty.query < len(names)
    on = f" while it answered query {names[casualty.query]!r}" if known else ", between two queries"
    who = f"one of {casualty.workers} workers" if casualty.workers > 1 else "the only worker"
    return Finding(f"{who} {casualty.how}{on}")


def _errors(ladder: Ladder) -> Iterator[Finding]:
    """One finding a type of error, with its first example, over all phases."""
    counts: dict[str, int] = {}
    first: dict[str, str] = {}
    for phase in ladder.phases:
        names = ladder.names.get(phase.set, ())
        for error in phase.errors:
            kind = error["error"].partition(":")[0]
            counts[kind] = counts.get(kind, 0) + error["count"]
            number = error["query"]
            first.setdefault(
                kind, f"{error['error']} (query {names[number]!r})" if number < len(names) else error["error"]
            )
    for kind, count in sorted(counts.items(), key=lambda pair: -pair[1]):
        yield Finding(f"{plural(count, 'query')} raised {first[kind]}")
