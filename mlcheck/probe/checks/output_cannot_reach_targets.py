"""Judges whether the last activation lets the output get to where the targets are."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.loss.comparisons import Comparisons, Difference
from mlcheck.probe.measure.loss.first_loss import FirstLoss, LossFact
from mlcheck.probe.measure.loss.floors import REACHED

_REGRESSION = {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy"}
MANY = 0.05


def check(seen: FirstLoss, compared: Comparisons | None) -> Verdict:
    judged: list[LossFact | Difference] = [
        loss for loss in seen.losses if loss.kind in _REGRESSION and loss.made_by in REACHED
    ]
    if not seen.losses and compared:
        judged = [one for one in compared.differences if one.made_by in REACHED]
    if not judged:
        return Verdict(Outcome.SKIP, reason="no regression loss follows a bounded activation")
    outside = [loss for loss in judged if loss.outside > 0]
    if not outside:
        loss = judged[0]
        return Verdict(
            Outcome.PASS,
            f"targets from {loss.low:.4g} to {loss.high:.4g} lie within what {loss.made_by} gives",
            looked_at=len(judged),
        )
    findings = tuple(_fault(loss) for loss in outside)
    many = any(loss.outside >= MANY for loss in outside if isinstance(loss, LossFact))
    return Verdict(
        Outcome.FAIL if many else Outcome.WARN, findings[0].message, findings=findings, looked_at=len(judged)
    )


def _fault(loss: LossFact | Difference) -> Finding:
    low, high = REACHED[loss.made_by]
    return Finding(
        f"the output comes from {loss.made_by} and stays between {low:g} and {high:g}, but "
        f"{100 * loss.outside:.3g} % of the targets lie outside ({loss.low:.4g} to {loss.high:.4g})",
        loss.place,
        help="scale the targets into that range, or end in a linear layer",
        numbers={"targets outside": loss.outside},
    )
