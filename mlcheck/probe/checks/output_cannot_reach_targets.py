"""Judges whether the last activation lets the output get to where the targets are."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.loss.comparisons import Comparisons, Difference
from mlcheck.probe.measure.loss.cosine_scores import CosineScores, Scores
from mlcheck.probe.measure.loss.first_loss import FirstLoss, LossFact
from mlcheck.probe.measure.loss.floors import REACHED
from mlcheck.probe.measure.loss.overlap_ratios import OverlapRatios, Ratio

_REGRESSION = {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy"}
MANY = 0.05
SOME = 0.01
HIGH, HOPELESS = 0.75, 0.9  # of what a guess costs, the least that the loss can come to


def check(
    seen: FirstLoss, compared: Comparisons | None, cosines: CosineScores | None, overlaps: OverlapRatios | None
) -> Verdict:
    if cosines and (near := [one for one in cosines.calls if one.floor >= HIGH * one.guess]):
        findings = tuple(map(_squeezed, near))
        outcome = Outcome.FAIL if any(one.floor >= HOPELESS * one.guess for one in near) else Outcome.WARN
        return Verdict(outcome, findings[0].message, findings=findings, looked_at=len(cosines.calls))
    if overlaps and (signed := [one for one in overlaps.ratios if one.raw or one.below >= SOME]):
        findings = tuple(map(_signed, signed))
        return Verdict(Outcome.WARN, findings[0].message, findings=findings, looked_at=len(overlaps.ratios))
    if several := [one for one in seen.losses if one.ones[1] > 1 and seen.targets]:
        findings = tuple(map(_several_classes, several))
        return Verdict(Outcome.WARN, findings[0].message, findings=findings, looked_at=len(seen.losses))
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


def _several_classes(loss: LossFact) -> Finding:
    low, high = loss.ones
    return Finding(
        f"cross_entropy is to give up to {high} classes of a sample a probability of 1, where all of them share 1 (the "
        f"targets hold {low} to {high} ones each)",
        loss.place,
        help="for tags of which any number may hold use binary_cross_entropy_with_logits; else divide by their number",
        numbers={"most": float(high)},
    )


def _squeezed(scores: Scores) -> Finding:
    return Finding(
        f"the scores that cross_entropy is given are cosines times {scores.factor:.3g}: they stay between "
        f"{-scores.factor:.3g} and {scores.factor:.3g}, and with {scores.classes} classes the loss cannot fall below "
        f"{scores.floor:.3g}, where a guess costs {scores.guess:.3g}",
        scores.place,
        help="divide cosines by a temperature below 1 (0.07, say), or multiply them by a scale such as 15",
        numbers={"factor": scores.factor, "floor": scores.floor},
    )


def _signed(ratio: Ratio) -> Finding:
    return Finding(
        "the loss divides predictions under a mask by the sum of all (as Dice and IoU do), which asks for shares from "
        f"0 to 1: they are {'the raw output of a layer' if ratio.raw else 'numbers of any sign'}, {ratio.low:.3g} to "
        f"{ratio.high:.3g}, so that the sum may come to zero and the loss has no floor",
        ratio.place,
        help="apply a sigmoid, or a softmax over the classes, first",
        numbers={"below zero": ratio.below},
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
