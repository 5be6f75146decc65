"""Judges whether training waits for its data, and what loading is busy with meanwhile."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.speed.loading_shares import Busy
from mlcheck.probe.measure.speed.step_time import StepTime
from mlcheck.probe.measure.speed.time_causes import NOTICEABLE, Cause, Lost, cause
from mlcheck.probe.measure.speed.time_told import figures, ms, numbers, times, told

_BUSY = {
    Busy.CPU: "computes",
    Busy.COLLATE: "joins samples into batches (collate)",
    Busy.DISK: "waits for the disk",
    Busy.REMOTE: "waits for another machine (a socket)",
    Busy.SLEEP: "sleeps",
    Busy.LOCK: "waits for a lock that another process holds",
    Busy.THREADS: "waits for threads of its own process",
    Busy.HANDOVER: "hands batches over between processes: pickled by the worker, unpickled by the trainer",
}
_HELP = {
    Busy.CPU: "make this line cheaper: decode, resize or tokenize once and store the result",
    Busy.COLLATE: "build the batch by few operations on whole arrays, as torch.stack does, or do the work per sample",
    Busy.DISK: "store samples in few large files that are read in order, smaller or compressed, on a faster disk",
    Busy.REMOTE: "ask for many samples at once, keep connections open, and copy the data to the local disk first",
    Busy.SLEEP: "see what this line waits for: a retry, a rate limit, a simulated delay",
    Busy.LOCK: "open what the lock protects once in every worker (worker_init_fn), so that none is needed",
    Busy.THREADS: "see what these threads wait for: a download, a lock, each other",
    Busy.HANDOVER: "return tensors or arrays from collate_fn: they are shared between processes, objects are copied",
}


def check(seen: StepTime, *, share: float = NOTICEABLE) -> Verdict:
    found = cause(seen)
    evidence, counted = told(seen), numbers(seen, found)
    if found.lost is Lost.UNCLEAR:
        return Verdict(Outcome.INCONCLUSIVE, evidence, found.why, numbers=counted, figures=figures(seen, found))
    if found.lost is not Lost.WAITING or found.share < share:
        return Verdict(Outcome.PASS, evidence, numbers=counted, looked_at=seen.batches or len(seen.rounds))
    at_line = seen.lines.lines[0][1] if seen.lines.lines else 0.0
    place = seen.lines.line if at_line else seen.place
    if found.busy is Busy.HANDOVER and seen.lines.collate.path:
        place, at_line = seen.lines.collate, 0.0
    by = " (by processor time and waiting alone, as other programs used the cores)" if found.why else ""
    message = f"{_message(seen, found)}{by}, {_at(found, at_line)}"
    finding = Finding(message, place, _help(seen, found), related=tuple(at for at, _ in seen.lines.lines[1:]))
    return Verdict(
        Outcome.WARN, evidence, findings=(finding,), figures=figures(seen, found), numbers=counted,
        looked_at=seen.batches or len(seen.rounds),
    )  # fmt: skip


def _message(seen: StepTime, found: Cause) -> str:
    last = seen.rounds[-1]
    load, train = found.calm or ((last.load, last.alone) if seen.workers else (last.waits, last.step))
    gain = f"without waiting it is up to {times(found.gain)} as fast"
    if not seen.workers:
        return (
            f"loading and training take turns, as there are no worker processes: {found.share:.0%} of the loop is "
            f"loading ({ms(load)} a batch, and {ms(train)} to train on it); {gain}"
        )
    hands = f"{seen.workers} worker{'s' * (seen.workers > 1)}"
    return (
        f"training waits for its data {found.share:.0%} of the time: with {hands} a batch takes {ms(load)} to load "
        f"and {ms(train)} to train on; {gain}"
    )


def _at(found: Cause, share: float) -> str:
    busy = _BUSY.get(found.busy, "")
    if found.busy is Busy.MIXED and found.shares:
        first, second = sorted(_BUSY, key=lambda kind: -(found.shares or {}).get(kind, 0.0))[:2]
        busy = f"{_BUSY[first]}, and {_BUSY[second]}"
    unseen = "was not seen" if found.shares else "is not told by this system"
    what = f"loading {busy}" if busy else f"what loading is busy with {unseen}"
    return f"and {what}; {share:.0%} of it stands at this line" if share else f"and {what}"


def _help(seen: StepTime, found: Cause) -> str:
    mend = _HELP.get(found.busy, "make loading cheaper")
    if not seen.workers:
        return f"load ahead in other processes, DataLoader(num_workers=2, persistent_workers=True); and {mend}"
    load = seen.phases.get("load")
    if found.busy in (Busy.REMOTE, Busy.SLEEP):
        return f"{mend}; more workers wait side by side"
    if found.busy not in (Busy.CPU, Busy.COLLATE) or load is None:
        return mend
    if seen.workers >= load.cores:
        return f"{mend}; of {plural(load.cores, 'core')} none is idle, so that more workers gain nothing"
    return f"{mend}; or raise num_workers: there {'is' if load.cores == 1 else 'are'} {plural(load.cores, 'core')}"
