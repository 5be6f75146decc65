"""How long a batch takes to the device, from ordinary and from pinned memory, beside the step it is for."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import ClassVar, Self

import torch
from torch import Tensor

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import first_batches, length_of
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.tree import copied, leaves
from mlcheck.trial.trial import Trial

_TIMES = 7


@dataclass(frozen=True, slots=True)
class BatchCopy:
    """Seconds of a step, and of copying its batch to the device. `pins` says what the loader does; `batches` is the

    length of a pass, 0 where it is unknown.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 92

    step_s: float
    ordinary_s: float
    pinned_s: float
    megabytes: float
    pins: bool
    workers: int = 0
    batches: int = 0
    place: Location = field(default_factory=Location)

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - some twenty copies and steps
        if trial.device.type != "cuda":
            raise NotMeasured("the program runs on the CPU here: there is no CUDA device to copy batches to")
        if trial.draws_batches or not trial.repeats_batches:
            raise NotMeasured("the program draws its batches itself, between its own steps")
        batch = first_batches(trial, 1)[0]
        on_host = [tensor.detach().cpu() for _, tensor in leaves(batch)]
        pinned = [tensor.pin_memory() for tensor in on_host]
        loader = trial.loaders.get("training")
        return cls(
            step_s=_timed(lambda: trial.train_step(copied(batch), 0), trial.device),
            ordinary_s=_timed(lambda: _copied_to(on_host, trial.device), trial.device),
            pinned_s=_timed(lambda: _copied_to(pinned, trial.device), trial.device),
            megabytes=sum(tensor.nbytes for tensor in on_host) / 1e6,
            pins=bool(getattr(loader, "pin_memory", False)),
            workers=int(getattr(loader, "num_workers", 0) or 0),
            batches=length_of(loader),
            place=Location(*trial.entry),
        )


def _copied_to(tensors: list[Tensor], device: torch.device) -> None:
    for tensor in tensors:
        tensor.to(device, non_blocking=True)


def _timed(work: Callable[[], object], device: torch.device) -> float:
    """The median, the first left out, each until the device has finished."""
    times = []
    for _ in range(_TIMES + 1):
        torch.cuda.synchronize(device)
        begun = time.perf_counter()
        work()
        torch.cuda.synchronize(device)
        times.append(time.perf_counter() - begun)
    return median(times[1:])
