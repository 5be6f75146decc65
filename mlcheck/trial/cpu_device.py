"""What stands where a program expects something of a GPU, and there is none: streams, events, the device itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, Self

import torch

AMPERE = (8, 0)  # the least that programs written for today's GPUs take for granted


class Idle:
    """A stream or an event of a device that does everything at once."""

    priority = 0
    stream_id = cuda_stream = 0
    device = torch.device("cpu")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def record(self, *_: Any) -> None: ...

    def record_event(self, event: Any = None) -> Any:
        return event or Idle()

    def wait(self, *_: Any) -> None: ...

    def wait_stream(self, *_: Any) -> None: ...

    def wait_event(self, *_: Any) -> None: ...

    def synchronize(self) -> None: ...

    def query(self) -> bool:
        return True

    def elapsed_time(self, _: Any) -> float:
        return 0.0


def memory() -> tuple[int, int]:
    """Free and total memory of this machine, in bytes."""
    page = os.sysconf("SC_PAGE_SIZE")
    return page * os.sysconf("SC_AVPHYS_PAGES"), page * os.sysconf("SC_PHYS_PAGES")


def properties(*_: Any) -> SimpleNamespace:
    major, minor = AMPERE
    return SimpleNamespace(
        name="CPU", major=major, minor=minor, total_memory=memory()[1], multi_processor_count=os.cpu_count() or 1
    )


def state(*_: Any) -> torch.Tensor:
    """Of the random numbers of a GPU: there is none to keep."""
    return torch.zeros(16, dtype=torch.uint8)


# What is asked of the modules of `torch.cuda` and of the device, by the answer.
NOTHING: dict[str, tuple[str, ...]] = {
    "torch.cuda": (
        "set_device", "synchronize", "empty_cache", "reset_peak_memory_stats", "reset_max_memory_allocated",
        "reset_max_memory_cached", "reset_accumulated_memory_stats", "set_per_process_memory_fraction", "ipc_collect",
        "init", "set_rng_state", "set_stream", "set_sync_debug_mode",
    ),
    "torch.cuda.nvtx": ("range_push", "range_pop", "range_start", "range_end", "mark"),
    "torch.cuda.profiler": ("start", "stop"),
    "torch.cuda.memory": ("_record_memory_history", "_dump_snapshot"),
}  # fmt: skip
ZERO = (
    "current_device", "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved",
    "memory_cached", "max_memory_cached", "utilization", "temperature", "power_draw", "memory_usage", "clock_rate",
)  # fmt: skip
ANSWERS: dict[str, Any] = {
    "torch.cuda.stream": nullcontext,
    "torch.cuda.device": nullcontext,
    "torch.cuda.device_of": nullcontext,
    "torch.cuda.nvtx.range": nullcontext,
    "torch.cuda.profiler.profile": nullcontext,
    "torch.cuda.current_stream": lambda *_: Idle(),
    "torch.cuda.default_stream": lambda *_: Idle(),
    "torch.cuda.get_device_name": lambda *_: "CPU",
    "torch.cuda.get_device_capability": lambda *_: AMPERE,
    "torch.cuda.get_device_properties": properties,
    "torch.cuda.mem_get_info": lambda *_: memory(),
    "torch.cuda.memory_summary": lambda *_, **__: "",
    "torch.cuda.memory_snapshot": lambda *_, **__: [],
    "torch.cuda.get_rng_state": state,
    "torch.cuda.can_device_access_peer": lambda *_: False,
    "torch.cuda.cudart": lambda: SimpleNamespace(cudaProfilerStart=lambda: 0, cudaProfilerStop=lambda: 0),
}


def standing(name: str, make: Callable[..., Any], kinds: tuple[type, ...]) -> type:
    """A class to call and to ask `isinstance` of, whose objects are others'."""

    def __call__(_: type, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        return make(*args, **kwargs)

    def __instancecheck__(_: type, it: object) -> bool:  # noqa: N807
        return isinstance(it, kinds)

    standing_type = type("Standing", (type,), {"__call__": __call__, "__instancecheck__": __instancecheck__})
    made: type = standing_type(name, (), {})
    return made


def is_cuda(device: Any) -> bool:
    if isinstance(device, torch.device):
        return device.type == "cuda"
    if isinstance(device, int):  # the number of a GPU, as distributed programs write it
        return not isinstance(device, bool)
    return isinstance(device, str) and device.partition(":")[0] == "cuda"
