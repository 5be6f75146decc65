"""Judges the first loss against what a prediction that knows nothing would cost."""

from __future__ import annotations

import math

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.loss.first_loss import FirstLoss, LossFact

TIMES = 2.5
_CLASSES = {"cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits"}
REGRESSION_TIMES = 10.0
FEW = 8
_IN_ORDER = "the program draws its batches itself, others every time: the first may not be like all"


def check(seen: FirstLoss) -> Verdict:
    known = [loss for loss in seen.losses if loss.ignorant > 0 and not loss.own_target and not loss.margin]
    judged = [loss for loss in known if math.prod(loss.target_shape) >= FEW]
    if seen.in_order and any(loss.kind not in _CLASSES for loss in judged):
        return Verdict(Outcome.SKIP, reason=_IN_ORDER)
    if not judged:
        few = f"the losses of a batch compare fewer than {FEW} targets: too few to judge by"
        return Verdict(Outcome.SKIP, reason=few if known else "no loss whose value without knowledge is known")
    faults = (_fault(loss) for loss in judged if loss.value > _limit(loss) * loss.ignorant)
    findings = tuple({(fault.message, fault.location): fault for fault in faults}.values())
    if findings:
        return Verdict(
            Outcome.WARN, findings[0].message, findings=findings, figures=(_figure(judged),), looked_at=len(judged)
        )
    told = ", ".join(f"{loss.kind} {loss.value:.3g} (no knowledge: {loss.ignorant:.3g})" for loss in judged[:3])
    return Verdict(Outcome.PASS, f"before training: {told}", looked_at=len(judged))


def _limit(loss: LossFact) -> float:
    return TIMES if loss.kind in _CLASSES else REGRESSION_TIMES


def _fault(loss: LossFact) -> Finding:
    know = "equal chances for every class" if loss.kind in _CLASSES else "predicting zero"
    return Finding(
        f"before training {loss.kind} is {loss.value:.3g}, {loss.value / loss.ignorant:.1f} times the "
        f"{loss.ignorant:.3g} of {know}: the untrained model is confident and wrong",
        loss.place,
        help="scale the inputs, or initialise the last layer smaller (torch's default, or zeros)",
        numbers={"loss": loss.value, "without knowledge": loss.ignorant},
    )


def _figure(judged: list[LossFact]) -> Figure:
    labels, values = [], []
    for loss in judged:
        labels += [loss.kind, "without knowledge"]
        values += [loss.value, loss.ignorant]
    return Figure("bars", "the loss before training", {"labels": labels, "values": values})
