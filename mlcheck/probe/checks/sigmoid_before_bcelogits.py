"""Judges what enters a binary cross-entropy that applies the sigmoid itself, torch's or one written with softplus."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.loss.logistic_terms import LogisticTerms
from mlcheck.probe.measure.loss.loss_inputs import LossInputs

_TORCHS = "binary_cross_entropy_with_logits"


def check(inputs: LossInputs, written: LogisticTerms | None) -> Verdict:
    calls, terms = inputs.of(_TORCHS), written.terms if written else ()
    if not calls and not terms:
        return Verdict(Outcome.SKIP, reason=f"no {_TORCHS} was computed in the training steps")
    faults = [_fault(_TORCHS, call.made_by, call.place) for call in calls if call.made_by in ("sigmoid", "softmax")]
    faults += [_fault(term.name, term.made_by, term.place) for term in terms if term.made_by in ("sigmoid", "softmax")]
    looked_at = len(calls) + len(terms)
    if faults:
        return Verdict(Outcome.FAIL, faults[0].message, findings=tuple(faults), looked_at=looked_at)
    if not calls:
        return Verdict(Outcome.PASS, f"no sigmoid before {terms[0].name}", looked_at=looked_at)
    low, high = min(call.low for call in calls), max(call.high for call in calls)
    return Verdict(
        Outcome.PASS, f"no sigmoid before {_TORCHS}: its inputs range from {low:.3g} to {high:.3g}", looked_at=looked_at
    )


def _fault(name: str, made_by: str, place: Location) -> Finding:
    own = "" if name == _TORCHS else ", which is a binary cross-entropy of logits"
    return Finding(
        f"the input of {name} comes from {made_by}{own}: the predicted probability stays between 0.5 and 0.73",
        place,
        help="give it the logits, or use binary_cross_entropy on the probabilities",
    )
