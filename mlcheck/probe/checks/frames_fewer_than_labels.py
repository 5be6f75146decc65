"""Judges whether the labels that `ctc_loss` gets can be spread over the frames that it gets."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.loss.label_frames import LabelFrames

FEW = 0.05  # what `zero_infinity` is for


def check(seen: LabelFrames) -> Verdict:
    share = seen.short / max(seen.samples, 1)
    if not seen.short:
        told = f"{plural(seen.samples, 'sample')} with frames for all labels; the tightest has {seen.frames}"
        return Verdict(Outcome.PASS, f"{told} for {seen.needed}", looked_at=seen.samples)
    if seen.zeroed and share <= FEW:
        told = f"{seen.short} of {plural(seen.samples, 'sample')} too short for their labels, and zero_infinity drops"
        return Verdict(Outcome.PASS, f"{told} them", looked_at=seen.samples)
    effect = "they count for nothing (zero_infinity)" if seen.zeroed else "their loss is infinite, whatever the model"
    finding = Finding(
        f"{seen.short} of {plural(seen.samples, 'sample')} have fewer frames than their labels need (one has "
        f"{seen.frames} for {seen.needed}), so no alignment exists: {effect}",
        seen.place,
        help="shrink time less on the way (strides, pooling), give `input_lengths` after that shrinking, not before, "
        "or leave out samples with more labels than frames; two equal labels in a row need a blank between them",
        numbers={"short": float(seen.short), "samples": float(seen.samples)},
    )
    whole = seen.short == seen.samples or not seen.zeroed
    return Verdict(
        Outcome.FAIL if whole else Outcome.WARN, finding.message, findings=(finding,), looked_at=seen.samples
    )
