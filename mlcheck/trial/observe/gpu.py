"""What a GPU did while something was measured: use, memory and clocks, as NVML tells them several times a second."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from statistics import fmean
from typing import Any, Self

import torch

from mlcheck.core.plural import plural

_PAUSE_S = 0.1
_SLOWED_BY_POWER = 0x4 | 0x80  # software power cap, hardware power brake
_SLOWED_BY_HEAT = 0x20 | 0x40  # software and hardware thermal slowdown


@dataclass(frozen=True, slots=True)
class GpuActivity:
    """Means over the time watched. `used` is the share of time in which any kernel ran, which says nothing of how

    many of its cores were at work. `memory` is the largest share of its memory in use, `clock` the share of its
    highest clock, `power` and `heat` the shares of looks in which these held the clock down. Without a look
    `why_not` says why.
    """

    looks: int = 0
    used: float = 0.0
    memory: float = 0.0
    clock: float = 0.0
    power: float = 0.0
    heat: float = 0.0
    why_not: str = ""

    def __str__(self) -> str:
        if not self.looks:
            return f"GPU use, memory and clocks: {self.why_not}"
        told = [f"a kernel ran {self.used:.0%} of the time", f"{self.memory:.0%} of its memory in use"]
        held = [f"held down by {name} {s:.0%}" for name, s in (("power", self.power), ("heat", self.heat)) if s]
        told.append(" ".join([f"clock at {self.clock:.0%} of its highest", *held]))
        return f"the GPU, {plural(self.looks, 'look')}: {', '.join(told)}"


def _handle(nvml: Any, index: int) -> Any:
    """NVML counts all GPUs of the machine, CUDA those that CUDA_VISIBLE_DEVICES leaves: the UUID is the same."""
    if torch.cuda.is_available():
        return nvml.nvmlDeviceGetHandleByUUID(f"GPU-{torch.cuda.get_device_properties(index).uuid}")
    return nvml.nvmlDeviceGetHandleByIndex(index)


class GpuWatch:
    """Looks at one GPU from a thread while entered; `activity()` tells it afterwards, or why there is nothing."""

    def __init__(self, index: int = 0) -> None:
        self._index = index
        self._looks: list[tuple[float, float, float, int]] = []
        self._why_not = ""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._nvml: Any = None

    def __enter__(self) -> Self:
        try:
            self._nvml = import_module("pynvml")
            self._nvml.nvmlInit()
        except ImportError:
            self._why_not = "nvidia-ml-py is not installed (pip install 'mlcheck[gpu]')"
            return self
        except Exception as error:  # NVMLError, whose type is the module's
            self._why_not = f"NVML does not start: {error} (no NVIDIA driver)"
            return self
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            with suppress(Exception):
                self._nvml.nvmlShutdown()

    def _look(self) -> None:
        nvml = self._nvml
        try:
            device = _handle(nvml, self._index)
            highest = nvml.nvmlDeviceGetMaxClockInfo(device, nvml.NVML_CLOCK_SM)
            while not self._stop.wait(_PAUSE_S):
                memory = nvml.nvmlDeviceGetMemoryInfo(device)
                self._looks.append(
                    (
                        nvml.nvmlDeviceGetUtilizationRates(device).gpu / 100,
                        memory.used / memory.total,
                        nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_SM) / highest,
                        int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(device)),
                    )
                )
        except Exception as error:  # a virtual GPU tells only part of it
            self._why_not = f"NVML: {error}"

    def activity(self) -> GpuActivity:
        if not self._looks:
            return GpuActivity(why_not=self._why_not or "the time was too short for a look")
        used, memory, clock, reasons = zip(*self._looks, strict=True)
        return GpuActivity(
            looks=len(self._looks),
            used=fmean(used),
            memory=max(memory),
            clock=fmean(clock),
            power=fmean(bool(reason & _SLOWED_BY_POWER) for reason in reasons),
            heat=fmean(bool(reason & _SLOWED_BY_HEAT) for reason in reasons),
        )
