"""Judges whether the numbers that the data is scaled with were found on the training data alone."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.data.passes import Passes
from mlcheck.probe.measure.data.scaled_together import ScaledTogether, scaled_together


def check(passes: Passes) -> Verdict:
    if passes.validation is None:
        return Verdict(Outcome.SKIP, reason="there is no validation data")
    floats = [name for name, field in passes.training.fields.items() if "float" in field.dtype]
    if not floats:
        return Verdict(Outcome.SKIP, reason="the batches hold no floating-point numbers")
    if not (passes.training.whole and passes.validation.whole):
        return Verdict(Outcome.SKIP, reason="a pass over both splits takes too long")
    findings = tuple(_fault(found) for name in floats if (found := scaled_together(name, passes)))
    if findings:
        return Verdict(Outcome.WARN, findings[0].message, findings=findings, looked_at=len(floats))
    told = f"none of {plural(len(floats), 'tensor')} has mean 0 and deviation 1 over both splits together alone"
    return Verdict(Outcome.PASS, told, looked_at=len(floats))


def _fault(found: ScaledTogether) -> Finding:
    which = "its one feature has" if found.features == 1 else f"{found.standard} of {found.features} features have"
    training, validation = found.rows
    return Finding(
        f"`{found.place}` is standardised with the numbers of training and validation data together: {which} mean 0 "
        f"and deviation 1 over all {training + validation:,} rows, and a mean of up to {found.off:.2g} over the "
        f"{training:,} of training: what is to be told from validation has told something to training",
        help="split first; take mean and deviation of the training rows, and use them for all splits",
        numbers={"largest mean in training": found.off},
    )
