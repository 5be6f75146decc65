"""Judges whether divergences, and cross-entropies written by hand, are of distributions over the classes."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.loss.divergences import Divergence, Divergences
from mlcheck.probe.measure.loss.picked_scores import Picked, PickedScores


def check(seen: Divergences | None, picked: PickedScores | None) -> Verdict:
    over_samples = tuple(_over_samples(one) for one in picked.scores if one.over == {0}) if picked else ()
    if over_samples:
        return Verdict(Outcome.FAIL, over_samples[0].message, findings=over_samples, looked_at=len(over_samples))
    if seen is None:
        return _unless_divergent(picked)
    judged = [(call, *axes) for call in seen.calls if (axes := _axes(call))]
    findings = tuple(_fault(call, one, other) for call, one, other in judged if not set(one) & set(other))
    if findings:
        return Verdict(Outcome.FAIL, findings[0].message, findings=findings, looked_at=len(judged))
    if not judged:
        reason = "the sides of kl_div are not both distributions along a dimension"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, looked_at=len(seen.calls))
    return Verdict(Outcome.PASS, "both sides of kl_div sum to one along the same dimension", looked_at=len(judged))


def _unless_divergent(picked: PickedScores | None) -> Verdict:
    if picked is None:
        reason = "no divergence is computed, and no score of a label is picked by the program itself"
        return Verdict(Outcome.SKIP, reason=reason)
    told = "the scores of which those of the labels are picked are normalised over the classes"
    return Verdict(Outcome.PASS, told, looked_at=len(picked.scores))


def _over_samples(one: Picked) -> Finding:
    message = (
        f"the score of each label is picked along dimension 1 of {list(one.shape)}, and the exponentials that "
        "normalise it are summed along dimension 0, over the samples of the batch: no class is told from the others"
    )
    return Finding(message, one.place, help="sum over the classes, dim=1, or use torch.nn.functional.cross_entropy")


def _axes(call: Divergence) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The dimensions along which input and target are distributions; None where one of them is along none."""
    one, other = call.input, call.target
    mine = one.sums if one.is_distribution else one.exp_sums
    theirs = other.exp_sums if call.log_target else other.sums
    return (mine, theirs) if mine and theirs else None


def _fault(call: Divergence, one: tuple[int, ...], other: tuple[int, ...]) -> Finding:
    over = "the samples of the batch" if 0 in (*one, *other) else "something else"
    message = (
        f"the two sides of kl_div, {list(call.shape)}, are distributions along different dimensions: the input sums to "
        f"one along dimension {one[0]}, the target along dimension {other[0]}; one of them is normalised over {over}"
    )
    return Finding(message, call.place, help="take both over the classes: dim=1, or dim=-1 where they come last")
