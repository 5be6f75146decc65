"""Autocast for a GPU, acted out on the CPU, so that half precision can be seen where there is no GPU.

CPU autocast runs matrix products and convolutions in float16 as CUDA's does
(https://docs.pytorch.org/docs/stable/amp.html#autocast-op-reference); what the two treat differently is for the
caller to leave alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch

ACTED_OUT: ContextVar[bool] = ContextVar("mlcheck_half_precision", default=False)


def autocast_enabled() -> bool:
    """Whether a framework's automatic mixed precision takes effect here."""
    return torch.cuda.is_available() or ACTED_OUT.get()


@dataclass
class Requests:
    """What the program asked for: the types it casts to, and whether it scales its loss."""

    dtypes: list[torch.dtype] = field(default_factory=list)
    scales: bool = False


@contextmanager
def recorded_autocast(act_out: bool) -> Iterator[Requests]:
    """Record every enabled `torch.autocast`. With `act_out` each takes effect, also one for a GPU that is not there;
    without none does, so that the program computes in float32."""
    requests = Requests()
    init, scale = torch.autocast.__init__, torch.amp.GradScaler.scale

    def recording_init(
        self: Any, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        absent = device_type == "cuda" and not torch.cuda.is_available()
        if enabled:
            requests.dtypes.append(dtype or (torch.float16 if device_type == "cuda" else torch.bfloat16))
        if absent and act_out:
            init(self, "cpu", dtype or torch.float16, enabled, cache_enabled)
        else:
            init(self, device_type, dtype, enabled and act_out and not absent, cache_enabled)

    def recording_scale(self: Any, outputs: Any) -> Any:
        requests.scales = True
        return scale(self, outputs)

    token = ACTED_OUT.set(True)  # so that a framework asks, and its request is recorded, also where it has no effect
    torch.autocast.__init__ = recording_init  # type: ignore[method-assign]
    torch.amp.GradScaler.scale = recording_scale  # type: ignore[method-assign]
    try:
        yield requests
    finally:
        torch.autocast.__init__ = init  # type: ignore[method-assign]
        torch.amp.GradScaler.scale = scale  # type: ignore[method-assign]
        ACTED_OUT.reset(token)
