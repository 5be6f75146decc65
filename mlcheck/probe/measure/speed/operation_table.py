"""The operations of one training step as torch.profiler sees them: how many, how long, and which take the time."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from torch.profiler import ProfilerActivity, profile

from mlcheck.core.finding import Figure
from mlcheck.trial.trial import Trial

_SHOWN = 8
_EXCHANGES = ("c10d::", "nccl", "gloo", "AllReduce", "_allgather", "_reduce_scatter")


@dataclass(frozen=True, slots=True)
class Operation:
    name: str
    calls: int
    own_s: float
    device_s: float


@dataclass(frozen=True, slots=True)
class OperationTable:
    """`rows` by their own time, the longest first. `calls` and `own_s` are of all operations on the CPU.

    `device_s` is what kernels took, `exchange_s` what is for other ranks.
    """

    rows: tuple[Operation, ...] = ()
    calls: int = 0
    own_s: float = 0.0
    device_s: float = 0.0
    exchange_s: float = 0.0
    why_not: str = ""

    def figure(self) -> tuple[Figure, ...]:
        """Nothing where the profiler did not run."""
        if not self.rows:
            return ()
        columns = ["operation", "calls", "own time on the CPU, ms", "on the device, ms"]
        rows = [[row.name, row.calls, round(1e3 * row.own_s, 3), round(1e3 * row.device_s, 3)] for row in self.rows]
        return (Figure("table", "A step's operations (torch.profiler)", {"columns": columns, "rows": rows}),)


def operations(trial: Trial, batch: Any) -> OperationTable:
    """Profile one step, after one that is left out."""
    activities = [ProfilerActivity.CPU]
    if trial.device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    trial.train_step(batch, 0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with profile(activities=activities) as seen:
                trial.train_step(batch, 1)
            events = seen.key_averages()
    except RuntimeError as error:  # another profiler runs, or CUPTI is not permitted
        return OperationTable(why_not=f"torch.profiler did not run: {error}".splitlines()[0])
    found = [
        Operation(
            str(e.key), int(e.count), e.self_cpu_time_total / 1e6, getattr(e, "self_device_time_total", 0.0) / 1e6
        )
        for e in events
        if not str(e.key).startswith("[") and "ProfilerStep" not in str(e.key)
    ]
    ranked = sorted(found, key=lambda each: -max(each.own_s, each.device_s))
    return OperationTable(
        rows=tuple(ranked[:_SHOWN]),
        calls=sum(each.calls for each in found if each.name.startswith("aten::")),
        own_s=sum(each.own_s for each in found),
        device_s=sum(each.device_s for each in found),
        exchange_s=sum(max(e.own_s, e.device_s) for e in found if any(name in e.name for name in _EXCHANGES)),
    )
