"""How a load test was run, and what disturbed it."""

from __future__ import annotations

from mlcheck.load.ladder import Ladder


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
    if ladder.remote and not ladder.users:
        told.append("each connection asks one query at a time; capacity is what so many connections got answered")
    if not ladder.remote:
        rungs = ", ".join(f"{rung.workers}×{rung.threads}" for rung in ladder.rungs)
        told.append(f"workers × CPU threads of each: {rungs}, on {ladder.cores:g} cores")
    noisy = {rung.workers: phase.noise for rung in ladder.rungs for phase in rung.phases if phase.noise}
    if noisy:
        at = ", ".join(map(str, noisy))
        told.append(f"NOISY at {at} worker{'' if at == '1' else 's'}: {next(iter(noisy.values()))}")
    return told
