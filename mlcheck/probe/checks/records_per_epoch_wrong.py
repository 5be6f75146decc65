"""Judges whether the config's epoch is a pass over the training data."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.data.epoch_length import EpochLength

APART = 1.5


def check(seen: EpochLength) -> Verdict:
    times = seen.counted / seen.passed
    if 1 / APART < times < APART:
        told = f"records_per_epoch is {seen.counted:,}, and a pass over the training data has about {seen.passed:,}"
        return Verdict(Outcome.PASS, told, looked_at=1)
    message = (
        f"records_per_epoch is {seen.counted:,}, and a pass over the training data has about {seen.passed:,} samples: "
        f"an epoch of the cluster is {times:.3g} passes"
    )
    help_ = "write down how many samples the training loader gives in one pass"
    finding = Finding(message, help=help_, numbers={"records": float(seen.counted), "samples": float(seen.passed)})
    return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=1)
