"""Judges whether anything keeps the latents of an autoencoder spread."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.loss.unheld_spreads import UnheldSpreads

_MESSAGE = (
    "no divergence is in the loss: the latent is drawn with a spread that the encoder learns, and the loss knows that "
    "spread by the draw alone, so training makes it zero, and what is left is a plain autoencoder"
)


def check(seen: UnheldSpreads) -> Verdict:
    if not seen.unheld:
        told = f"{plural(seen.seen, 'learnt spread')} of latents are in the loss beside what is drawn with them"
        return Verdict(Outcome.PASS, told, looked_at=seen.seen)
    help_ = "add the KL divergence from the prior to the reconstruction loss, both summed over a sample"
    findings = tuple(Finding(_MESSAGE, place, help=help_) for place in dict.fromkeys(seen.unheld))
    return Verdict(Outcome.WARN, _MESSAGE, findings=findings, looked_at=seen.seen)
