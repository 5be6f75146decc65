"""Judges whether backward is called on a loss or on its negative."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.first_loss import FirstLoss


def check(seen: FirstLoss) -> Verdict:
    judged = [loss for loss in seen.losses if loss.pull is not None]
    if not judged:
        return Verdict(Outcome.SKIP, reason="no loss of torch.nn.functional feeds the backward pass")
    raised = [loss for loss in judged if loss.pull is not None and loss.pull < 0]
    if not raised:
        return Verdict(
            Outcome.PASS,
            f"what backward is called on rises with each of {len(judged)} losses",
            looked_at=len(judged),
        )
    if len(raised) < len(judged) or seen.backwards > 1:
        names = ", ".join(loss.kind for loss in raised)
        return Verdict(
            Outcome.INCONCLUSIVE,
            reason=f"{names} is maximised beside other losses, as adversarial training does on purpose",
        )
    findings = tuple(
        Finding(
            f"backward is called on the negative of {loss.kind} (derivative {loss.pull:.3g}): training raises it",
            loss.place,
            help="minimise the loss itself: the optimizer goes downhill",
        )
        for loss in raised
    )
    return Verdict(Outcome.FAIL, findings[0].message, findings=findings, looked_at=len(judged))
