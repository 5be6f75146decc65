"""Judges whether the loss is a mean over the batch or a sum that grows with it."""

from __future__ import annotations

import math

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.loss.first_loss import FirstLoss
from mlcheck.probe.measure.loss.penalties import Penalty
from mlcheck.probe.measure.loss.scale_free import SCALE_FREE
from mlcheck.probe.measure.names import listed

TOLERANCE = 0.01
SLIGHT = 1e-4
LOOSE = 0.4
"""Beyond this a mean and a sum cannot be told apart."""


def check(seen: FirstLoss) -> Verdict:
    by_name = seen.sums and not _is_bound(seen.penalty)
    if seen.tiled is None and by_name:
        return _by_name(*seen.sums[0])
    if seen.tiled is None or not math.isfinite(seen.tiled):
        return Verdict(Outcome.SKIP, reason="the batch cannot be repeated, or has no single finite loss")
    told = f"with every sample twice the loss is {seen.tiled:.4g} times as large"
    margin = TOLERANCE + 3 * seen.tiled_error
    if margin > LOOSE:
        reason = f"the loss draws random numbers: {told}, give or take {3 * seen.tiled_error:.2g}"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason)
    if abs(seen.tiled - 1) <= margin:
        return Verdict(Outcome.PASS, told, looked_at=2)
    if (mixed := _mixed(seen)) is not None:
        return mixed
    if abs(seen.tiled - 2) > margin and by_name:
        return _by_name(*seen.sums[0])
    if abs(seen.tiled - 2) > margin:
        return Verdict(Outcome.INCONCLUSIVE, reason=f"{told}: samples of a batch interact")
    if _is_bound(seen.penalty) and seen.optimizers and seen.optimizers <= SCALE_FREE:
        told = f"all terms of the loss are sums over the batch, and the steps of {listed(sorted(seen.optimizers))} are "
        return Verdict(Outcome.PASS, told + "the same at any scale of it", looked_at=2)
    message = (
        f"the loss is a sum over the batch: with every sample twice it doubles ({seen.values[0]:.4g} for "
        f"{plural(seen.samples, 'sample')}), and so does the step that a learning rate makes"
    )
    finding = Finding(
        message,
        seen.losses[0].place if seen.losses else seen.place,
        help="use reduction='mean', or divide by the batch size: another batch size or a smaller last batch then "
        "needs no other learning rate",
        numbers={"growth": seen.tiled},
    )
    return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=2)


def _by_name(kind: str, place: Location) -> Verdict:
    """Of a batch that cannot be repeated: samples that lie end to end, or that have neighbours among the others."""
    message = (
        f"{kind} is a sum over the batch (reduction='sum') that nothing divides: the step that a learning "
        "rate makes grows with the number of samples"
    )
    finding = Finding(message, place, help="use reduction='mean', or divide by the number of samples")
    return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=1)


def _is_bound(added: Penalty | None) -> bool:
    """Whether a term of the data is added to the losses, as a divergence is, and by more than is rounded off."""
    return added is not None and not added.about_weights and added.gradient_ratio > SLIGHT


def _mixed(seen: FirstLoss) -> Verdict | None:
    """One loss is a sum and another a mean: their weights are those of one batch size alone."""
    grown = [(loss, growth) for loss, growth in zip(seen.losses, seen.growths) if growth is not None]
    sums = [loss for loss, growth in grown if abs(growth - 2) <= TOLERANCE]
    means = [loss for loss, growth in grown if abs(growth - 1) <= TOLERANCE]
    if not sums or not means:
        return None
    message = (
        f"{listed([loss.kind for loss in sums])} is a sum over the batch and {listed([loss.kind for loss in means])} a "
        "mean: with every sample twice the one doubles and the other stays, so the batch size decides what counts"
    )
    finding = Finding(message, sums[0].place, help="use reduction='mean' for all of them, or divide by the batch size")
    return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=2)
