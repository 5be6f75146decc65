"""Judges whether the two sides of a divergence are distributions along the same dimension."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.loss.divergences import Divergence, Divergences


def check(seen: Divergences) -> Verdict:
    judged = [(call, *axes) for call in seen.calls if (axes := _axes(call))]
    findings = tuple(_fault(call, one, other) for call, one, other in judged if not set(one) & set(other))
    if findings:
        return Verdict(Outcome.FAIL, findings[0].message, findings=findings, looked_at=len(judged))
    if not judged:
        reason = "the sides of kl_div are not both distributions along a dimension"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, looked_at=len(seen.calls))
    return Verdict(Outcome.PASS, "both sides of kl_div sum to one along the same dimension", looked_at=len(judged))


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
