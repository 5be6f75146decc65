"""Runs a program that asks for a GPU by name on the CPU, and keeps account of where it asks.

`.cuda()`, `.to("cuda")`, `device="cuda"` and the functions of `torch.cuda` that fail without a GPU are led to the
CPU. `torch.cuda.is_available()` stays False: a program that asks first needs no shim.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from typing import Any

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils._device import DeviceContext, _device_constructors
from torch.utils.data import DataLoader

from mlcheck.trial.cpu_device import ANSWERS, NOTHING, ZERO, Idle, is_cuda, standing
from mlcheck.trial.traceback import user_line

_FACTORIES = (
    "arange", "as_tensor", "asarray", "empty", "empty_like", "empty_permuted", "empty_strided", "eye", "full",
    "full_like", "linspace", "logspace", "normal", "ones", "ones_like", "rand", "rand_like", "randint", "randint_like",
    "randn", "randn_like", "randperm", "range", "scalar_tensor", "tensor", "zeros", "zeros_like", "hann_window",
    "hamming_window", "bartlett_window", "blackman_window", "kaiser_window", "tril_indices", "triu_indices",
    "sparse_coo_tensor", "sparse_csr_tensor", "load", "set_default_device",
)  # fmt: skip
_METHODS = ("to", "new_empty", "new_full", "new_ones", "new_tensor", "new_zeros")
_TYPES = ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool")
_WITHOUT_CUDA = (
    "not compiled with CUDA", "no NVIDIA driver", "CUDA is not available", "torch.cuda.is_available() is False",
    "No CUDA GPUs are available", "No HIP GPUs are available", "Cannot access accelerator device",
    "without ATen_cuda library", "not linked with support for cuda", "requires CUDA support",
    "pin_memory=True requires a CUDA", "NVTX functions not installed", "dummy base class", "has no attribute '_cuda_",
    "CUDA driver version is insufficient", "Backend doesn't support create a new Stream",
)  # fmt: skip
_SHOWN = 60


class CpuShim:
    """While installed, what is asked of CUDA goes to the CPU; `uses` counts what was asked, by place."""

    def __init__(self) -> None:
        self.uses: dict[tuple[str, int, str], int] = {}
        self._stack = ExitStack()

    def install(self) -> None:
        """Without effect where there is a GPU."""
        if torch.cuda.is_available():
            return
        _device_constructors()  # kept from here on as they are: `with torch.device(...)` is known by them
        tables = ((torch, _FACTORIES), (torch.fft, ("fftfreq", "rfftfreq")), (torch.Tensor, _METHODS))
        for owner, names in (*tables, (nn.Module, ("to",))):
            for name in names:
                self._replace(owner, name, self._led(getattr(owner, name), name))
        for owner in (torch.Tensor, nn.Module):
            self._replace(owner, "cuda", self._answering(".cuda()", lambda it, *_, **__: it))
        self._replace(torch.Tensor, "pin_memory", self._answering(".pin_memory()", lambda it, *_, **__: it))
        self._replace(torch.Tensor, "record_stream", self._answering(".record_stream()", lambda *_: None))
        self._answer_for_the_device()
        self._replace_what_is_made()
        for kind in _TYPES:
            self._replace(torch.cuda, f"{kind}Tensor", getattr(torch, f"{kind}Tensor"))
        self._replace(torch.Tensor, "type", self._typed(torch.Tensor.type))
        self._replace(torch, "set_default_tensor_type", self._typed(torch.set_default_tensor_type))

    def _answer_for_the_device(self) -> None:
        answers: dict[str, Any] = {f"torch.cuda.{name}": lambda *_, **__: 0 for name in ZERO}
        answers |= {f"{owner}.{name}": lambda *_, **__: None for owner, names in NOTHING.items() for name in names}
        for path, answer in (answers | ANSWERS).items():
            owner, _, name = path.rpartition(".")
            module = import_module(owner)
            if hasattr(module, name):
                self._replace(module, name, self._answering(f"{path}()", answer))

    def _replace_what_is_made(self) -> None:
        """Objects that hold a device: what is made of them is the CPU's, and is listed."""
        for name in ("Stream", "Event"):
            self._replace(torch.cuda, name, self._standing_for(f"torch.cuda.{name}()", lambda *_, **__: Idle(), Idle))
            self._replace(torch, name, self._chosen(getattr(torch, name), f"torch.{name}", lambda _: Idle()))
        made = torch.Generator
        self._replace(torch, "Generator", self._chosen(made, "torch.Generator", lambda _: made()))
        self._replace(DeviceContext, "__init__", self._entered(DeviceContext.__init__))
        self._replace(DataLoader, "__init__", self._pinning(DataLoader.__init__))
        self._replace(torch.random, "fork_rng", self._forking(torch.random.fork_rng))
        for kind in (torch.autocast, torch.amp.GradScaler):
            self._replace(kind, "__init__", self._off(kind.__init__, kind.__name__))
        if distributed.is_available():
            self._replace(distributed, "init_process_group", self._joining(distributed.init_process_group))
        self._replace(DistributedDataParallel, "__init__", self._wrapping(DistributedDataParallel.__init__))

    def _wrapping(self, original: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(original)
        def __init__(wrapper: Any, module: nn.Module, *_: Any, **settings: Any) -> None:  # noqa: N807
            """On the CPU there are no device ids; what may be given by position are these and the output's."""
            settings = {name: value for name, value in settings.items() if name not in ("device_ids", "output_device")}
            original(wrapper, module, **settings)

        return __init__

    def _entered(self, original: Callable[..., None]) -> Callable[..., None]:
        def __init__(context: Any, device: Any) -> None:  # noqa: N807
            if is_cuda(device):
                self._note(f'with torch.device("{device}")')
            original(context, "cpu" if is_cuda(device) else device)

        return __init__

    def _pinning(self, original: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(original)
        def __init__(loader: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            if kwargs.get("pin_memory"):
                self._note("DataLoader(pin_memory=True)")
                kwargs |= {"pin_memory": False, "pin_memory_device": ""}
            original(loader, *args, **kwargs)

        return __init__

    def _forking(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def fork_rng(devices: Any = None, *args: Any, **kwargs: Any) -> Any:
            if devices:
                self._note("torch.random.fork_rng(devices=...)")
            return original([], *args, **kwargs)

        return fork_rng

    def _off(self, original: Callable[..., None], name: str) -> Callable[..., None]:
        """Mixed precision of a GPU stays off, as PyTorch has it where there is none."""

        @functools.wraps(original)
        def __init__(it: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            asked = args[0] if args else kwargs.get("device_type", kwargs.get("device", "cuda"))
            if asked == "cuda" and kwargs.get("enabled", args[2] if len(args) > 2 else True):
                self._note(f'{name}("cuda"), off')
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                original(it, *args, **kwargs)

        return __init__

    def _joining(self, original: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(original)
        def init_process_group(backend: Any = None, *args: Any, **kwargs: Any) -> None:
            if backend is not None and "nccl" in str(backend):
                self._note(f'init_process_group("{backend}")')
                backend = "gloo"
            original(backend, *args, **{name: value for name, value in kwargs.items() if name != "device_id"})

        return init_process_group

    def _typed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def typed(*args: Any, **kwargs: Any) -> Any:
            named = [arg for arg in args if isinstance(arg, str) and arg.startswith("torch.cuda.")]
            if named:
                self._note(f'type("{named[0]}")')
                args = tuple(f"torch.{arg[11:]}" if isinstance(arg, str) and arg in named else arg for arg in args)
            return original(*args, **kwargs)

        return typed

    def _chosen(self, original: Any, what: str, make: Callable[[Any], Any]) -> type:
        """A class that is asked for one on a device: the original, or for CUDA what `make` makes."""

        def chosen(*args: Any, **kwargs: Any) -> Any:
            asked = args[0] if args else kwargs.get("device")
            if not is_cuda(asked):
                return original(*args, **kwargs)
            self._note(f'{what}("{asked}")')
            return make(asked)

        return standing(original.__name__, chosen, (original, Idle))

    def _standing_for(self, what: str, make: Callable[..., Any], kind: type) -> type:
        return standing(kind.__name__, self._answering(what, make), (kind,))

    def remove(self) -> None:
        self._stack.close()

    def told(self, folder: str) -> str:
        """Every use with its places, seen from a folder, in a sentence; empty where there was none."""
        if not self.uses:
            return ""
        near = folder.rstrip(os.sep) + os.sep
        places: dict[str, list[str]] = {}
        for path, line, what in list(self.uses)[:_SHOWN]:
            places.setdefault(what, []).append(f"{path.removeprefix(near)}:{line}")
        more = f", and {len(self.uses) - _SHOWN} more" if len(self.uses) > _SHOWN else ""
        listed = ", ".join(f"{what} at {' '.join(where)}" for what, where in places.items())
        return f"--cpu-shim: what the program asks of CUDA was done on the CPU: {listed}{more}"

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
            if kwargs.get("pin_memory"):
                self._note(f"{name}(pin_memory=True)")
                del kwargs["pin_memory"]
            key = next((key for key in ("device", "map_location") if is_cuda(kwargs.get(key))), None)
            if key:
                self._note(f'{key}="{kwargs[key]}"')
                kwargs[key] = "cpu"
            elif name in {"to", "load", "set_default_device"} and any(map(is_cuda, args[:2])):
                asked = next(arg for arg in args if is_cuda(arg))
                self._note(f'{name}("{asked}")')
                args = tuple("cpu" if is_cuda(arg) else arg for arg in args)
            if name == "load" and kwargs.get("map_location") is None and len(args) < 2:
                kwargs["map_location"] = "cpu"  # what was saved on a GPU names it
            return original(*args, **kwargs)

        return led

    def _answering(self, what: str, answer: Callable[..., Any]) -> Callable[..., Any]:
        def answered(*args: Any, **kwargs: Any) -> Any:
            self._note(what)
            return answer(*args, **kwargs)

        return answered


def advice(error: BaseException) -> str:
    """What to do about an error that a machine without a GPU is the cause of; empty for any other."""
    lacks = any(text in str(error) for text in _WITHOUT_CUDA)
    if not lacks or torch.cuda.is_available():
        return ""
    return (
        "the program asks for a GPU, and there is none here: `--cpu-shim` runs what it asks of CUDA on the CPU and "
        "lists every place"
    )
