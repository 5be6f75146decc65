"""Judges whether the pictures that enter a convolution are pictures, or numbers in another order."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.first_inputs import FirstInputs

NEARLY_ALL = 0.95
SMOOTHER = 0.8
_HELP = "height x width x channels becomes channels first by `permute(0, 3, 1, 2)`; `reshape` and `view` keep the order"


def check(seen: FirstInputs) -> Verdict:
    judged = [(one.layer, one.pixels) for one in seen.inputs if one.pixels]
    if not judged:
        return Verdict(Outcome.SKIP, reason="no convolution gets pictures of several channels straight from the data")
    findings = tuple(
        Finding(
            f"the pictures that enter `{layer}` are scrambled: neighbouring pixels resemble each other more when the "
            f"same numbers are read as height x width x channels (difference {pixels.interleaved:.2g} of what chance "
            f"gives, {pixels.given:.2g} as they are), in {100 * pixels.share:.3g} % of {pixels.samples} samples",
            Location(symbol=layer.partition(" ")[0]),
            help=_HELP,
        )
        for layer, pixels in judged
        if pixels.share >= NEARLY_ALL and pixels.interleaved < SMOOTHER * pixels.given
    )
    looked = sum(pixels.samples for _, pixels in judged)
    if findings:
        return Verdict(Outcome.WARN, findings[0].message, findings=findings, looked_at=looked)
    layer, pixels = judged[0]
    told = f"the pictures that enter `{layer}` are at their smoothest as they are (difference {pixels.given:.2g})"
    return Verdict(Outcome.PASS, told, looked_at=looked)
