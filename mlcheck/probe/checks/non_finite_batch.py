"""Judges whether the training data holds NaN or infinite values."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.data.batches import Batches
from mlcheck.probe.measure.data.samples import Samples
from mlcheck.probe.measure.data.split import BadSample
from mlcheck.probe.measure.training.short_run import ShortRun

OFTEN = 10


def check(seen: Batches, samples: Samples | None, run: ShortRun | None) -> Verdict:
    scope = "the whole training data" if seen.whole_pass else f"the first {plural(seen.batches, 'batch')}"
    by_index = samples.training.non_finite if samples else []
    if not seen.non_finite and by_index:
        return _by_index(by_index, seen.samples)
    if not seen.non_finite:
        return Verdict(
            Outcome.PASS, f"all values are finite in {scope} ({plural(seen.samples, 'sample')})", looked_at=seen.samples
        )
    findings = []
    for bad in seen.non_finite:
        column = f", feature [{bad.column}]" if bad.column else ""
        message = (
            f"`{bad.name}` holds {plural(bad.values, 'NaN or infinite value')} in {bad.batches} of "
            f"{plural(seen.batches, 'batch')}; "
            f"the first is {bad.value} in batch {bad.batch}, row {bad.row}{column}"
        )
        if by_index:
            message += f"; sample {by_index[0].index} of the data set {by_index[0].what}"
        findings.append(Finding(message, numbers={"values": float(bad.values), "batches": float(bad.batches)}))
    if run and _left_out(seen, run):
        reason = (
            f"{findings[0].message}; yet over {plural(run.steps, 'training step')} every loss and gradient is finite: "
            "the program leaves missing values out"
        )
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, looked_at=seen.samples)
    return Verdict(Outcome.FAIL, findings[0].message, findings=tuple(findings), looked_at=seen.samples)


def _left_out(seen: Batches, run: ShortRun) -> bool:
    """Whether training met missing values often, and neither stumbled nor passed over a batch."""
    if run.error or run.bad_step is not None or not run.updates or run.backwards < run.steps:
        return False
    return all(bad.value == "NaN" and bad.batches * run.steps >= OFTEN * seen.batches for bad in seen.non_finite)


def _by_index(bad: list[BadSample], looked_at: int) -> Verdict:
    """Bad samples that no batch of the pass showed: there was no time for all of it."""
    more = f", and {plural(len(bad) - 1, 'other')}" if len(bad) > 1 else ""
    message = f"training sample {bad[0].index} {bad[0].what}{more}"
    finding = Finding(message, numbers={"index": float(bad[0].index), "samples": float(len(bad))})
    return Verdict(Outcome.FAIL, message, findings=(finding,), looked_at=looked_at)
