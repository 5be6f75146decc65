"""Judges whether the loader's settings are as fast as the best on this machine, and names the smallest that are."""

from __future__ import annotations

from statistics import median

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.speed.loader_place import loader_place
from mlcheck.probe.measure.speed.loader_search import LoaderSearch, Settings, Timed, loop_s, smallest

_CLEARLY = 1.1
_STARTING = 0.05
_TAKEN_BY_OTHERS = 0.15


def check(seen: LoaderSearch) -> Verdict:
    best = smallest(seen.timed, seen.step_s)
    by_settings = {each.settings: each for each in seen.timed}
    mine, theirs = by_settings.get(seen.users) or _closest(seen), by_settings[best]
    advice = _advice(seen, theirs)
    evidence = (
        f"{advice} is the smallest setting as fast as the best: {_ms(loop_s(theirs, seen.step_s))} a batch "
        f"with a step of {_ms(seen.step_s)}; yours, {seen.users}, takes {_ms(loop_s(mine, seen.step_s))}"
    )
    if theirs.worker_bytes:
        evidence += f"; a worker takes {theirs.worker_bytes / 1e6:.3g} MB (PSS)"
    evidence += "".join(f"; {limit}" for limit in seen.limits)
    numbers = {"workers": best.workers, "batch, ms": 1e3 * loop_s(theirs, seen.step_s)}
    if seen.others is not None and seen.others >= _TAKEN_BY_OTHERS:
        why = f"other programs used {seen.others:.0%} of the cores meanwhile: on a machine of its own it may differ"
        return Verdict(Outcome.INCONCLUSIVE, evidence, why, figures=_figures(seen), numbers=numbers)
    gain = loop_s(mine, seen.step_s) / loop_s(theirs, seen.step_s)
    apart = min(mine.batch_s) > max(theirs.batch_s) or bool(best.workers) != bool(seen.users.workers)
    findings = [Finding(limit, loader_place(seen.place, seen.users.workers)) for limit in seen.limits]
    if gain >= _CLEARLY and apart:
        message = f"the loop can be up to {gain:.2g} times as fast with other settings of its loader: {evidence}"
        place = loader_place(seen.place, seen.users.workers)
        findings.insert(0, Finding(message, place, f"write DataLoader(..., {advice})"))
    outcome = Outcome.WARN if findings else Outcome.PASS
    return Verdict(
        outcome, evidence, findings=tuple(findings), figures=_figures(seen), numbers=numbers, looked_at=len(seen.timed)
    )


def _closest(seen: LoaderSearch) -> Timed:
    """The program's number of workers, with as much read ahead as was measured for it."""
    return next(each for each in seen.timed if each.settings.workers == seen.users.workers)


def _advice(seen: LoaderSearch, best: Timed) -> str:
    """The settings as they are written; workers stay where starting them is a twentieth of a pass."""
    settings: Settings = best.settings
    told = str(settings)
    steady = median(best.batch_s)
    whole = seen.batches * loop_s(best, seen.step_s)
    if settings.workers and whole and best.start_s - steady > _STARTING * whole:
        told += ", persistent_workers=True"
    return told


def _figures(seen: LoaderSearch) -> tuple[Figure, ...]:
    columns = ["settings", "loader alone", "range", "in the loop", "first batch", "a worker's memory"]
    rows = [
        [
            str(each.settings),
            _ms(median(each.batch_s)),
            f"{_ms(min(each.batch_s))} to {_ms(max(each.batch_s))}",
            _ms(loop_s(each, seen.step_s)),
            _ms(each.start_s),
            f"{each.worker_bytes / 1e6:.3g} MB" if each.worker_bytes else "",
        ]
        for each in sorted(seen.timed, key=lambda one: (one.settings.workers, one.settings.prefetch))
    ]
    shown = [Figure("table", "Settings of the loader, measured here", {"columns": columns, "rows": rows})]
    if seen.not_run:
        shown.append(Figure("text", "Not run", {"text": "\n".join(seen.not_run)}))
    return tuple(shown)


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"
