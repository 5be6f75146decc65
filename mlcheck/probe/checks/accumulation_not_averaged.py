"""Judges whether gradients added up over several batches are divided by their number."""

from __future__ import annotations

import statistics
from itertools import pairwise

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.loss.first_loss import FirstLoss
from mlcheck.probe.measure.training.short_run import ShortRun

TWICE = 2


def check(run: ShortRun, first: FirstLoss) -> Verdict:
    if parts := _parts_of_a_batch(first):
        return _within_a_step(run, first, parts)
    if first.backwards != 1 or not run.updates:
        return Verdict(Outcome.SKIP, reason="gradients are not added up over batches by one backward pass a batch")
    steps = sorted({update.step for update in run.updates})
    gaps = {later - earlier for earlier, later in pairwise(steps)}
    every = min(gaps, default=1)
    if every < 2 or len(steps) < 3:
        return Verdict(Outcome.SKIP, reason="every batch has its own update")
    pulls = [loss.pull for loss in first.losses if loss.pull is not None and loss.floors is not None]
    if not first.losses and first.plain_mean:
        pulls = [1.0]
    if not pulls or first.tiled is None or abs(first.tiled - 1) > 0.01:
        return Verdict(
            Outcome.INCONCLUSIVE, reason=f"{every} batches make one update, but how they are weighted is open"
        )
    weight = max(pulls)
    if _divided_by(every, run):
        return Verdict(
            Outcome.PASS, f"{every} batches make one update, and their sum is divided by {every}", looked_at=len(steps)
        )
    times = weight * every
    if weight != 1 and (len(pulls) > 1 or weight > 1 or times < TWICE):
        return Verdict(
            Outcome.PASS,
            f"{every} batches make one update, and the loss of each enters with {weight:.4g}",
            looked_at=len(steps),
        )
    message = (
        f"{every} batches make one update, and each mean loss enters with weight {weight:.4g}: the gradient is "
        f"{times:.4g} times that of one large batch"
    )
    finding = Finding(
        message,
        run.backward_place,
        help=f"divide the loss by {every} before backward, or the step grows with the number of batches",
        numbers={"batches": float(every), "weight": weight},
    )
    return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=len(steps))


def _divided_by(count: int, run: ShortRun) -> bool:
    """Whether the gradients are divided between the last backward pass and the optimizer's step."""
    later = [update.raw / update.norm for update in run.updates if update.norm > 0]
    return bool(later) and abs(statistics.median(later) / count - 1) < 0.01


def _parts_of_a_batch(first: FirstLoss) -> int:
    """How many backward passes of one line divide a batch among them, each from a mean over its part; 0 if none do."""
    losses = first.losses
    alike = len({(loss.kind, loss.place, loss.reduction) for loss in losses}) == 1 and losses[0].reduction == "mean"
    if (
        first.backwards < 2
        or len(losses) != first.backwards
        or not alike
        or not all(loss.input_shape for loss in losses)
    ):
        return 0
    return first.backwards if sum(loss.input_shape[0] for loss in losses) == first.samples else 0


def _within_a_step(run: ShortRun, first: FirstLoss, parts: int) -> Verdict:
    if len({update.step for update in run.updates}) != len(run.updates) or not run.updates:
        return Verdict(Outcome.SKIP, reason=f"the {parts} parts of a batch do not make one update")
    weights = [loss.pull for loss in first.losses]
    if any(weight != 1 for weight in weights) or _divided_by(parts, run):
        told = f"{parts} parts of a batch make one update, and each enters with its share"
        return Verdict(Outcome.PASS, told, looked_at=len(run.updates))
    message = (
        f"{parts} parts of a batch make one update, and each mean loss enters with weight 1: the gradient is {parts} "
        "times that of the whole batch"
    )
    help_ = f"divide the loss by {parts} before backward, or the step grows with the number of parts"
    finding = Finding(message, run.backward_place, help=help_, numbers={"batches": float(parts), "weight": 1.0})
    return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=len(run.updates))
