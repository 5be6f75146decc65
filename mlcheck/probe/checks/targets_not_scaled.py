"""Judges the scale of regression targets."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.first_loss import FirstLoss

LARGE = 100.0
_REGRESSION = {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"}


def check(seen: FirstLoss, *, largest: float = LARGE) -> Verdict:
    judged = [loss for loss in seen.losses if loss.kind in _REGRESSION]
    if not judged:
        return Verdict(Outcome.SKIP, reason="no mse_loss, l1_loss, smooth_l1_loss or huber_loss was computed")
    findings = tuple(
        Finding(
            f"the targets of {loss.kind} run from {loss.low:.4g} to {loss.high:.4g}: a fresh last layer gives about 1, "
            "and loss and gradients grow with the targets' scale",
            loss.place,
            help="standardise the targets with the training data's numbers, or fit their logarithm",
            numbers={"low": loss.low, "high": loss.high},
        )
        for loss in judged
        if max(abs(loss.low), abs(loss.high)) > largest
    )
    if findings:
        return Verdict(Outcome.WARN, findings[0].message, findings=findings, looked_at=len(judged))
    told = ", ".join(f"{loss.low:.3g} to {loss.high:.3g}" for loss in judged[:3])
    return Verdict(Outcome.PASS, f"the targets run from {told}", looked_at=len(judged))
