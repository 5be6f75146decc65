"""Judges whether autocast leaves every layer's output where float32 has it, up to rounding."""

from __future__ import annotations

import math

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.drive import inconclusive
from mlcheck.probe.measure.precision.autocast_error import AutocastError

FAR = 20.0
_SHOWN = 40


def check(seen: AutocastError, *, roundoffs: float = FAR) -> Verdict:
    if not any(error for *_, error in seen.layers):
        raise inconclusive("autocast took no effect here, so there is nothing to compare")
    finite = [error for _, _, error in seen.layers if math.isfinite(error)]
    worst = max(finite, default=0.0)
    numbers = {"largest error": worst, "roundoff": seen.roundoff}
    shown = [(name, error) for name, _, error in seen.layers if math.isfinite(error)][:_SHOWN]
    bars = {"labels": [name for name, _ in shown], "values": [error for _, error in shown]}
    figure = Figure("bars", f"error of {seen.dtype} by layer, in units of roundoff", bars)
    first = next((layer for layer in seen.layers if not layer[2] <= roundoffs), None)
    if first is None:
        told = (
            f"the outputs of {plural(len(seen.layers), 'layer')} in {seen.dtype} are within {worst:.2g} "
            "units of roundoff"
        )
        return Verdict(Outcome.PASS, told, looked_at=len(seen.layers), numbers=numbers, figures=(figure,))
    name, kind, error = first
    by = (
        f"by {error:.3g} units of roundoff ({error * seen.roundoff:.1%})"
        if math.isfinite(error)
        else "it is not finite"
    )
    message = f"in {seen.dtype} `{name}` ({kind}) is the first layer whose output leaves that of float32: {by}"
    help_ = "normalise what goes in, or run this layer under torch.autocast(..., enabled=False)"
    finding = Finding(message, help=help_, numbers=numbers)
    return Verdict(
        Outcome.WARN, message, findings=(finding,), looked_at=len(seen.layers), numbers=numbers, figures=(figure,)
    )
