"""Judges whether each rank chooses a GPU of its own."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.measurement import NotMeasured
from mlcheck.probe.measure.ranks.run import Device, RankRun, location


def check(run: RankRun) -> Verdict:
    chosen = [rank.of(Device) for rank in run.ranks]
    if not all(chosen):
        raise NotMeasured("the ranks choose no GPU by set_device or device_ids; `--cpu-shim` lets a CUDA program run")
    for how in ("set_device", "device_ids"):
        last = [[device for device in devices if device.how == how][-1:] for devices in chosen]
        if all(last) and len({device.index for (device,) in last}) == 1:
            (first,) = last[0]
            message = f"all {len(chosen)} ranks choose GPU {first.index} by {how}"
            finding = Finding(
                message, location(first.place, run.place), help='choose by local rank: int(os.environ["LOCAL_RANK"])'
            )
            return Verdict(Outcome.FAIL, message, findings=(finding,), looked_at=len(chosen))
    return Verdict(Outcome.PASS, f"{len(chosen)} ranks choose GPUs of their own", looked_at=len(chosen))
