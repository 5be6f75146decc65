"""Judges whether the workers of a stream each read all of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.data.passes import Passes
from mlcheck.probe.measure.data.read_alone import ReadAlone
from mlcheck.probe.measure.data.sample_tensors import digest
from mlcheck.probe.measure.names import part_of
from mlcheck.probe.measure.tree import leaves

FEW = 50
NEARLY_ALL = 0.98
ROUNDS = 4
HELP = "let each worker take its share in __iter__, or draw by its own seed: torch.utils.data.get_worker_info()"


def check(passes: Passes, alone: ReadAlone | None) -> Verdict:
    workers = passes.workers
    if not passes.stream or workers < 2:
        return Verdict(Outcome.SKIP, reason="the training data is no stream that several workers read")
    counts = Counter(row for batch in passes.training.kept for row in _digests(batch))
    rows = counts.total()
    if not passes.training.whole and (rounds := _alike(passes.training.digests, workers)):
        message = (
            f"the {workers} workers of the stream give the same batches: one of each worker, and all "
            f"equal, in each of {rounds} rounds"
        )
        return Verdict(Outcome.FAIL, message, findings=(Finding(message, help=HELP),), looked_at=rounds * workers)
    if len(counts) < FEW or not passes.training.whole or rows < NEARLY_ALL * passes.training.samples:
        return Verdict(Outcome.INCONCLUSIVE, reason="the stream was not read to its end, or has few samples")
    as_often = sum(count == workers for count in counts.values())
    if as_often < NEARLY_ALL * len(counts) and alone and (message := _each_all(workers, alone)):
        return Verdict(Outcome.WARN, message, findings=(Finding(message, help=HELP),), looked_at=rows)
    if as_often < NEARLY_ALL * len(counts):
        return Verdict(Outcome.PASS, f"{len(counts):,} different samples of {rows:,} in a pass", looked_at=rows)
    message = (
        f"every sample of the stream comes {workers} times in a pass, {rows:,} in all and {len(counts):,} different "
        f"ones: each of {workers} workers reads the whole of it"
    )
    return Verdict(Outcome.FAIL, message, findings=(Finding(message, help=HELP),), looked_at=rows)


def _each_all(workers: int, alone: ReadAlone) -> str:
    """Of samples that are augmented, and so never the same twice: workers give as many as one process would by itself,

    with the same labels in another order.
    """
    if not alone.samples or not NEARLY_ALL <= alone.together / (workers * alone.samples) <= 2 - NEARLY_ALL:
        return ""
    for name in alone.numbers[0]:
        shares = [[n for batch in alone.numbers[one::workers] for n in batch.get(name, ())] for one in range(workers)]
        several = len(set(shares[0])) > 1
        if several and all(sorted(one) == sorted(shares[0]) and one != shares[0] for one in shares[1:]):
            return (
                f"each of {workers} workers gives {len(shares[0]):,} samples, as many as one process that reads the "
                f"stream alone, and all of them the same `{part_of('batch', name)}`, each in an order of its own: "
                f"every sample comes {workers} times, augmented anew"
            )
    return ""


def _alike(digests: list[bytes], workers: int) -> int:
    """In how many rounds, one batch from each worker, all were equal and unlike those before; 0 where not in all."""
    rounds = [digests[start : start + workers] for start in range(0, len(digests) - workers + 1, workers)]
    distinct = {batches[0] for batches in rounds}
    equal = all(len(set(batches)) == 1 for batches in rounds)
    return len(rounds) if equal and len(distinct) == len(rounds) >= ROUNDS else 0


def _digests(batch: Any) -> list[bytes]:
    """A hash of each row, over all tensors with one row a sample."""
    tensors = [tensor.detach().cpu() for _, tensor in leaves(batch) if tensor.ndim]
    sizes = Counter(len(tensor) for tensor in tensors)
    if not sizes:
        return []
    size = sizes.most_common(1)[0][0]
    whole = [tensor for tensor in tensors if len(tensor) == size]
    return [digest([tensor[row] for tensor in whole]) for row in range(size)]
