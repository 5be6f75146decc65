"""Judges whether gradients added up over several batches are divided by their number."""

from __future__ import annotations

import statistics
from itertools import pairwise

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.first_loss import FirstLoss
from mlcheck.probe.measure.short_run import ShortRun


def check(run: ShortRun, first: FirstLoss) -> Verdict:
    if first.backwards != 1 or not run.updates:
        return Verdict(Outcome.SKIP, reason="gradients are not added up over batches by one backward pass a batch")
    steps = sorted({update.step for update in run.updates})
    gaps = {later - earlier for earlier, later in pairwise(steps)}
    every = min(gaps, default=1)
    if every < 2 or len(steps) < 3:
        return Verdict(Outcome.SKIP, reason="every batch has its own update")
    pulls = [loss.pull for loss in first.losses if loss.pull is not None and loss.floors is not None]
    if not pulls or first.tiled is None or abs(first.tiled - 1) > 0.01:
        return Verdict(
            Outcome.INCONCLUSIVE, reason=f"{every} batches make one update, but how they are weighted is open"
        )
    weight = max(pulls)
    later = [update.raw / update.norm for update in run.updates if update.norm > 0]
    if later and abs(statistics.median(later) / every - 1) < 0.01:
        return Verdict(
            Outcome.PASS, f"{every} batches make one update, and their sum is divided by {every}", looked_at=len(steps)
        )
    if weight != 1:
        return Verdict(
            Outcome.PASS,
            f"{every} batches make one update, and the loss of each enters with {weight:.4g}",
            looked_at=len(steps),
        )
    message = (
        f"{every} batches make one update, and each mean loss enters with weight 1: the gradient is {every} times "
        "that of one large batch"
    )
    finding = Finding(
        message,
        run.backward_place,
        help=f"divide the loss by {every} before backward, or the step grows with the number of batches",
        numbers={"batches": float(every), "weight": weight},
    )
    return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=len(steps))
