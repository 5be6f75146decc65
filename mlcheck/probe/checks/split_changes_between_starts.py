"""Judges whether a restart validates on the same samples as the start."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.measurement import NotMeasured
from mlcheck.probe.measure.training.restarts import Restart

_HELP = (
    "give the split its own generator with a fixed seed, or store it: a resumed run must not train on what it validated"
)


def check(seen: Restart) -> Verdict:
    if not seen.samples:
        raise NotMeasured("there is no validation data")
    if not seen.others:
        summary = f"a restart validates on the same {plural(seen.samples, 'sample')}"
        return Verdict(Outcome.PASS, summary, looked_at=seen.samples)
    told = f"after a restart {seen.others:,} of {seen.samples:,} validation samples are others"
    trained = f", and {seen.now_trained:,} are trained on" if seen.now_trained else ""
    finding = Finding(f"the split changes between starts: {told}{trained}", seen.place, help=_HELP)
    return Verdict(Outcome.FAIL, told, findings=(finding,), looked_at=seen.samples)
