"""Runs a program that asks for a GPU by name on the CPU, and keeps account of where it asks.

`.cuda()`, `.to("cuda")`, `device="cuda"` and the functions of `torch.cuda` that fail without a GPU are led to the
CPU. `torch.cuda.is_available()` stays False: a program that asks first needs no shim.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from mlcheck.trial.traceback import user_line

_FACTORIES = (
    "arange", "as_tensor", "asarray", "empty", "empty_like", "empty_strided", "eye", "full", "full_like",
    "linspace", "logspace", "normal", "ones", "ones_like", "rand", "rand_like", "randint", "randint_like", "randn",
    "randn_like", "randperm", "scalar_tensor", "tensor", "zeros", "zeros_like", "hann_window", "tril_indices",
    "triu_indices", "load", "set_default_device",
)  # fmt: skip
_METHODS = ("to", "new_empty", "new_full", "new_ones", "new_tensor", "new_zeros")
_DOES_NOTHING = (
    "set_device", "synchronize", "empty_cache", "reset_peak_memory_stats", "reset_max_memory_allocated",
    "reset_accumulated_memory_stats", "set_per_process_memory_fraction", "ipc_collect", "init",
)  # fmt: skip
_IS_ZERO = ("current_device", "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")
_CONTEXTS = ("stream", "device")
_TYPES = ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool")
_WITHOUT_CUDA = (
    "not compiled with CUDA",
    "no NVIDIA driver",
    "CUDA is not available",
    "torch.cuda.is_available() is False",
    "No CUDA GPUs are available",
    "No HIP GPUs are available",
    "Cannot access accelerator device",
    "Cannot get CUDA generator",
    "dummy base class",
    "has no attribute '_cuda_",
)
_SHOWN = 8


class CpuShim:
    """While installed, what is asked of CUDA goes to the CPU; `uses` counts what was asked, by place."""

    def __init__(self) -> None:
        self.uses: dict[tuple[str, int, str], int] = {}
        self._stack = ExitStack()

    def install(self) -> None:
        """Without effect where there is a GPU."""
        if torch.cuda.is_available():
            return
        for owner, names in ((torch, _FACTORIES), (torch.Tensor, _METHODS), (nn.Module, ("to",))):
            for name in names:
                self._replace(owner, name, self._led(getattr(owner, name), name))
        for owner in (torch.Tensor, nn.Module):
            self._replace(owner, "cuda", self._answering(".cuda()", lambda it, *_, **__: it))
        self._replace(torch.Tensor, "pin_memory", self._answering(".pin_memory()", lambda it, *_, **__: it))
        for name in _DOES_NOTHING:
            self._replace(torch.cuda, name, self._answering(f"torch.cuda.{name}()", lambda *_, **__: None))
        for name in _IS_ZERO:
            self._replace(torch.cuda, name, self._answering(f"torch.cuda.{name}()", lambda *_, **__: 0))
        for name in _CONTEXTS:
            self._replace(torch.cuda, name, self._answering(f"torch.cuda.{name}()", lambda *_, **__: nullcontext()))
        for name in ("Stream", "Event"):
            self._replace(torch.cuda, name, self._answering(f"torch.cuda.{name}()", lambda *_, **__: _Idle()))
        self._replace(torch.cuda, "current_stream", self._answering("torch.cuda.current_stream()", lambda *_: _Idle()))
        self._replace(torch.cuda, "get_device_name", self._answering("torch.cuda.get_device_name()", lambda *_: "CPU"))
        self._replace(DistributedDataParallel, "__init__", self._wrapping(DistributedDataParallel.__init__))
        for kind in _TYPES:
            self._replace(torch.cuda, f"{kind}Tensor", getattr(torch, f"{kind}Tensor"))

    def _wrapping(self, original: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(original)
        def __init__(wrapper: Any, module: nn.Module, *_: Any, **settings: Any) -> None:  # noqa: N807
            """On the CPU there are no device ids; what may be given by position are these and the output's."""
            settings = {name: value for name, value in settings.items() if name not in ("device_ids", "output_device")}
            original(wrapper, module, **settings)

        return __init__

    def remove(self) -> None:
        self._stack.close()

    def told(self, folder: str) -> str:
        """Every use with its place, seen from a folder, in a sentence; empty where there was none."""
        if not self.uses:
            return ""
        near = folder.rstrip(os.sep) + os.sep
        places = [f"{path.removeprefix(near)}:{line} {what}" for path, line, what in self.uses]
        more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
        return f"--cpu-shim: what the program asks of CUDA was done on the CPU: {', '.join(places[:_SHOWN])}{more}"

    def _replace(self, owner: Any, name: str, value: Any) -> None:
        own = name in vars(owner)
        before = getattr(owner, name, None)
        setattr(owner, name, value)
        self._stack.callback(setattr, owner, name, before) if own else self._stack.callback(delattr, owner, name)

    def _note(self, what: str) -> None:
        path, line = user_line()
        if path:
            self.uses[path, line, what] = self.uses.get((path, line, what), 0) + 1

    def _led(self, original: Callable[..., Any], name: str) -> Callable[..., Any]:
        @functools.wraps(original)
        def led(*args: Any, **kwargs: Any) -> Any:
            key = next((key for key in ("device", "map_location") if _is_cuda(kwargs.get(key))), None)
            if key:
                self._note(f'{key}="{kwargs[key]}"')
                kwargs[key] = "cpu"
            elif name in {"to", "load", "set_default_device"} and any(map(_is_cuda, args[:2])):
                asked = next(arg for arg in args if _is_cuda(arg))
                self._note(f'{name}("{asked}")')
                args = tuple("cpu" if _is_cuda(arg) else arg for arg in args)
            if name == "load" and kwargs.get("map_location") is None and len(args) < 2:
                kwargs["map_location"] = "cpu"  # what was saved on a GPU names it
            return original(*args, **kwargs)

        return led

    def _answering(self, what: str, answer: Callable[..., Any]) -> Callable[..., Any]:
        def answered(*args: Any, **kwargs: Any) -> Any:
            self._note(what)
            return answer(*args, **kwargs)

        return answered


class _Idle:
    """A stream or an event of a device that does everything at once."""

    def record(self, *_: Any) -> None: ...

    def wait(self, *_: Any) -> None: ...

    def wait_stream(self, *_: Any) -> None: ...

    def wait_event(self, *_: Any) -> None: ...

    def synchronize(self) -> None: ...

    def query(self) -> bool:
        return True

    def elapsed_time(self, _: Any) -> float:
        return 0.0


def _is_cuda(device: Any) -> bool:
    if isinstance(device, torch.device):
        return device.type == "cuda"
    if isinstance(device, int):  # the number of a GPU, as distributed programs write it
        return not isinstance(device, bool)
    return isinstance(device, str) and device.partition(":")[0] == "cuda"


def advice(error: BaseException) -> str:
    """What to do about an error that a machine without a GPU is the cause of; empty for any other."""
    lacks = any(text in str(error) for text in _WITHOUT_CUDA)
    if not lacks or torch.cuda.is_available():
        return ""
    return (
        "the program asks for a GPU, and there is none here: `--cpu-shim` runs what it asks of CUDA on the CPU and "
        "lists every place"
    )
