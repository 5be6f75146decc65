"""Judges whether worker processes, and epochs, augment a sample differently."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.data.worker_draws import READS, WORKERS, WorkerDraws


def check(seen: WorkerDraws) -> Verdict:
    looked = 2 * WORKERS * READS
    if not seen.varies:
        return Verdict(Outcome.SKIP, reason="a worker reads the same sample every time: nothing random is in it")
    first, second = seen.epochs
    help_ = "draw from torch's or numpy's global generator, which is seeded anew for every worker and epoch" + (
        "; let worker_init_fn seed with torch.initial_seed()" if seen.seeded_by_user else ""
    )
    if first[0] == first[1]:
        distinct = len(set(first[0]) | set(first[1]))
        message = (
            f"all loader workers draw the same random numbers: one sample, read {READS} times by each of two workers, "
            f"came out as the same {plural(distinct, 'variant')} in the same order"
        )
        return Verdict(Outcome.FAIL, message, findings=(Finding(message, help=help_),), looked_at=looked)
    if first == second:
        message = f"every epoch repeats the random numbers of the one before: {READS} reads of one sample are the same"
        return Verdict(Outcome.WARN, message, findings=(Finding(message, help=help_),), looked_at=looked)
    return Verdict(Outcome.PASS, "two workers, and two epochs, augment the same sample differently", looked_at=looked)
