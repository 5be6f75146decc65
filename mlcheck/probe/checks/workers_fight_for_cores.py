"""Judges whether the loader's workers take the cores that the training step needs."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.speed.loader_place import loader_place
from mlcheck.probe.measure.speed.step_time import StepTime
from mlcheck.probe.measure.speed.time_causes import Lost, cause
from mlcheck.probe.measure.speed.time_told import figures, ms, numbers, times, told


def check(seen: StepTime) -> Verdict:
    if not seen.workers:
        return Verdict(Outcome.SKIP, reason="the training loader has no worker processes")
    found = cause(seen)
    evidence, counted = told(seen), numbers(seen, found)
    if found.lost is Lost.UNCLEAR:
        return Verdict(Outcome.INCONCLUSIVE, evidence, found.why, numbers=counted)
    if found.lost is not Lost.FIGHTING:
        return Verdict(Outcome.PASS, evidence, numbers=counted, looked_at=seen.batches or len(seen.rounds))
    last, loop = seen.rounds[-1], seen.phases["loop"]
    lacks = f", and the trainer is ready but without a core {loop.trainer.delay:.0%} of the time"
    message = (
        f"workers and training fight for {plural(loop.cores, 'core')}: a step takes {ms(last.step)} while "
        f"{seen.workers} "
        f"workers load, and {ms(last.alone)} when they rest{lacks if loop.trainer.delay else ''}; "
        f"without it the loop is up to {times(found.gain)} as fast"
    )
    help_ = (
        f"fewer workers (num_workers={max(1, loop.cores - 1)} leaves training a core), each with one thread: "
        "torch.set_num_threads(1) and OMP_NUM_THREADS=1 in the workers; and cheaper samples, as the cores are full"
    )
    place = loader_place(seen.place, seen.workers)
    return Verdict(
        Outcome.WARN, evidence, findings=(Finding(message, place, help_),), figures=figures(seen, found),
        numbers=counted, looked_at=seen.batches or len(seen.rounds),
    )  # fmt: skip
