"""Judges whether the collate function keeps each input with its own label."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.data.collated import Collated


def check(seen: Collated) -> Verdict:
    if seen.repeated:
        message = f"collate_fn puts one sample into every row: all {seen.samples} rows of `{seen.inputs}` are the same"
        finding = Finding(message, seen.place, help="take each row from its own sample")
        return Verdict(Outcome.FAIL, message, findings=(finding,), looked_at=seen.samples)
    if not seen.apart:
        return Verdict(
            Outcome.PASS,
            f"all {seen.samples} inputs of a batch come with their own `{seen.label}` from collate_fn",
            looked_at=seen.samples,
        )
    message = (
        f"collate_fn gives inputs the labels of other samples: `{seen.inputs}` comes in another order than "
        f"`{seen.label}`, and {seen.apart} of {plural(seen.samples, 'pair')} are wrong"
    )
    finding = Finding(message, seen.place, help="sort the samples, not one of their parts")
    return Verdict(Outcome.FAIL, message, findings=(finding,), looked_at=seen.samples)
