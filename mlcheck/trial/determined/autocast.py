"""The model proxy of `context.experimental.use_amp()`: forward under autocast, half outputs back to float32."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from mlcheck.trial.half_precision import autocast_enabled


def autocast_proxy(model: nn.Module) -> nn.Module:
    """A new object of a subclass of the model's class that shares all of its attributes.

    As in Determined, only calls of the returned object run under autocast, and a deep copy of it still
    shares the parameters of `model`, which is its `__wrapped__`. Autocast is off without CUDA.
    """
    kind = type(model)

    def init(_: nn.Module) -> None:
        """Every attribute is the model's."""

    def forward(_: nn.Module, *args: Any, **kwargs: Any) -> Any:
        with torch.autocast("cuda", enabled=autocast_enabled()):
            return model.forward(*args, **kwargs)

    members = {
        "__init__": init,
        "__getattr__": lambda _, name: getattr(model, name),
        "__setattr__": lambda _, name, value: setattr(model, name, value),
        "__delattr__": lambda _, name: delattr(model, name),
        "__module__": kind.__module__,
        "__wrapped__": model,
        "forward": forward,
    }
    proxy: nn.Module = type(kind.__name__, (kind,), members)()
    proxy.register_forward_hook(lambda _module, _inputs, output: _to_float32(output))
    return proxy


def _to_float32(output: Any) -> Any:
    if isinstance(output, torch.Tensor):
        return output.float() if output.dtype is torch.float16 else output
    if isinstance(output, dict):
        return {name: _to_float32(value) for name, value in output.items()}
    if isinstance(output, list):
        return [_to_float32(value) for value in output]
    if isinstance(output, tuple):
        return tuple(_to_float32(value) for value in output)
    return output
