"""A GPU that has stopped: after an assertion on the device a process can do nothing more with it, not even read.

CUDA calls such errors sticky (CUDA C++ Programming Guide, "Error checking"): every later call returns them, so that
whatever is asked next seems to be at fault.
"""

from __future__ import annotations

import torch

from mlcheck.trial.traceback import error_line


class GpuLost(BaseException):
    """No `Exception`: nobody between the measurement and the process's end can go on."""


def look_at_gpu() -> None:
    """Raises GpuLost where the GPU answers no more."""
    if error := stopped():
        raise GpuLost(error)


def stopped() -> str:
    """What CUDA says in place of finishing what is queued; empty where it finishes, or was never started."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return ""
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        return error_line(error)
    return ""
