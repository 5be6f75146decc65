"""Judges whether predictions and targets of a regression loss have the same shape."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.first_loss import FirstLoss, LossFact

_ELEMENTWISE = {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"}


def check(seen: FirstLoss) -> Verdict:
    judged = [loss for loss in seen.losses if loss.kind in _ELEMENTWISE]
    if not judged:
        return Verdict(Outcome.SKIP, reason="no mse_loss, l1_loss, smooth_l1_loss or huber_loss was computed")
    faults = tuple(_fault(loss) for loss in judged if loss.input_shape != loss.target_shape)
    if faults:
        return Verdict(Outcome.FAIL, faults[0].message, findings=faults, looked_at=len(judged))
    shapes = ", ".join(str(loss.input_shape) for loss in judged)
    return Verdict(Outcome.PASS, f"predictions and targets have the same shape: {shapes}", looked_at=len(judged))


def _fault(loss: LossFact) -> Finding:
    given, wanted = loss.input_shape, loss.target_shape
    rank = max(len(given), len(wanted))
    pairs = zip((1,) * (rank - len(given)) + given, (1,) * (rank - len(wanted)) + wanted)
    compared = " × ".join(str(max(one, other)) for one, other in pairs)
    return Finding(
        f"{loss.kind} gets predictions {given} and targets {wanted}: it compares every one with every other "
        f"({compared} differences), and the best it can learn is the mean",
        loss.place,
        help="give both the same shape: squeeze the predictions' last dimension, or unsqueeze the targets",
    )
