"""How a load test was run, and what disturbed it."""

from __future__ import annotations

from mlcheck.load.ladder import Ladder
from mlcheck.load.percentiles import percentile
from mlcheck.load.wording import number

_COLD = 10.0  # times the usual query
_NOTICED_MS = 50.0


def validity(ladder: Ladder, seed: int) -> list[str]:
    """What a reader must know to trust the numbers."""
    if not ladder.rungs:
        return []
    told = [f"the ladder ended early: {ladder.stopped}"] if ladder.stopped else []
    late = max((phase.lateness_ms for phase in ladder.phases), default=0.0)
    told.append(
        f"latency counts from the moment a query was due (Poisson arrivals, seed {seed}); the harness was late by "
        f"{late:.3g} ms at most (p99)"
    )
    cuts = [phase.cut for phase in ladder.phases if phase.kind == "closed"]
    if cuts:
        told.append(f"the first {max(cuts):,} queries at most of a capacity phase were cut as warm-up (MSER-5)")
    told += _cold_start(ladder)
    if ladder.remote and not ladder.users:
        told.append("each connection asks one query at a time; capacity is what so many connections got answered")
    if not ladder.remote:
        rungs = ", ".join(f"{rung.workers}×{rung.threads}" for rung in ladder.rungs)
        told.append(f"workers × CPU threads of each: {rungs}, on {ladder.cores:g} cores")
    noisy = {rung.workers: phase.noise for rung in ladder.rungs for phase in rung.phases if phase.noise}
    if noisy:
        *others, last = noisy
        at = "".join(f"{workers}, " for workers in others) + ladder.counted(last)
        told.append(f"NOISY at {at}: {next(iter(noisy.values()))}")
    return told


def _cold_start(ladder: Ladder) -> list[str]:
    """What the first user of a new worker waits for, where it is much more than the others do."""
    first = max((ms for rung in ladder.rungs for _, ms in rung.starts), default=0.0)
    usual = [phase.service_ms for phase in ladder.phases if phase.kind == "closed" and len(phase.service_ms)]
    if not usual or first < max(_NOTICED_MS, _COLD * percentile(usual[0], 0.5)):
        return []
    later = number(percentile(usual[0], 0.5))
    told = f"COLD: the first query of a worker took up to {number(first)} ms, half of the later ones at most {later} ms"
    return [f"{told}: it is in no percentile; ask one in `load()`, before users do"]
