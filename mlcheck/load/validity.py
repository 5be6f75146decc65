"""How a load test was run, and what disturbed it."""

from __future__ import annotations

from mlcheck.load.ladder import Ladder


def validity(ladder: Ladder, seed: int) -> list[str]:
    """What a reader must know to trust the numbers."""
    if not ladder.rungs:
        return []
    told = [f"the ladder ended early: {ladder.stopped}"] if ladder.stopped else []
    cuts = [phase.cut for phase in ladder.phases if phase.kind == "closed"]
    late = max((phase.lateness_ms for phase in ladder.phases), default=0.0)
    told.append(
        f"latency counts from the moment a query was due (Poisson arrivals, seed {seed}); the first "
        f"{max(cuts, default=0)} queries at most of a capacity phase were cut as warm-up (MSER-5); the harness was "
        f"late by {late:.3g} ms at most (p99)"
    )
    if ladder.remote:
        told.append("a worker is one connection to the service, and capacity is what so many connections get answered")
    rungs = ", ".join(f"{rung.workers}×{rung.threads}" for rung in ladder.rungs)
    told.append(f"workers × CPU threads of each: {rungs}, on {ladder.cores:g} cores")
    noisy = {rung.workers: phase.noise for rung in ladder.rungs for phase in rung.phases if phase.noise}
    if noisy:
        at = ", ".join(map(str, noisy))
        told.append(f"NOISY at {at} worker{'' if at == '1' else 's'}: {next(iter(noisy.values()))}")
    return told
