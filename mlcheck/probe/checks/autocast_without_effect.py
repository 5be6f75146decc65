"""Judges whether anything that half precision speeds up runs where autocast is on."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.names import listed
from mlcheck.probe.measure.precision.autocast_error import AutocastError


def check(seen: AutocastError) -> Verdict:
    if not seen.products:
        return Verdict(Outcome.SKIP, reason="no linear or convolutional layer ran in the step")
    count = len(seen.products)
    if seen.halved or any(error for *_, error in seen.layers):
        told = f"{len(seen.halved)} of {count} linear and convolutional layers give out {seen.dtype}"
        return Verdict(Outcome.PASS, told, looked_at=count)
    message = (
        f"autocast to {seen.dtype} is entered, and none of {count} linear and convolutional layers computes in it "
        f"({listed(list(seen.products))}): the model runs outside of it, in float32"
    )
    help_ = "call the model inside of `with torch.autocast(...)`, and leave only backward and the optimizer outside"
    finding = Finding(message, Location(symbol=seen.products[0]), help=help_)
    return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=count)
