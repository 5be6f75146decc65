"""Watches, while a query is answered, whether modules run in training mode and whether gradients are recorded."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Modes:
    """`training` names layers that behave differently in training and were run so; `graph` a module that kept one."""

    calls: int = 0
    training: list[str] = field(default_factory=list)
    graph: str = ""
    names: dict[int, str] = field(default_factory=dict)

    def told(self) -> dict[str, Any]:
        return {"calls": self.calls, "training": self.training, "graph": self.graph}


@contextmanager
def watched() -> Iterator[Modes]:
    """Hooks on every module of torch for the length of one query; nothing is seen where torch is not loaded."""
    modes = Modes()
    torch = sys.modules.get("torch")
    if torch is None:
        yield modes
        return
    from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

    def before(module: Any, _: Any) -> None:
        modes.calls += 1
        if id(module) not in modes.names:
            prefix = type(module).__name__
            modes.names |= {id(part): f"{prefix}.{name}" if name else prefix for name, part in module.named_modules()}
        scripted = module.modules() if isinstance(module, torch.jit.ScriptModule) else (module,)
        for part in scripted:
            told = f"{modes.names.get(id(part), type(part).__name__)} ({_kind(part)})"
            if part.training and _differs_in_training(part) and told not in modes.training:
                modes.training.append(told)

    def after(module: Any, _: Any, output: Any) -> None:
        if isinstance(output, torch.Tensor) and output.requires_grad:
            modes.graph = modes.names.get(id(module), type(module).__name__)

    first, second = register_module_forward_pre_hook(before), register_module_forward_hook(after)
    try:
        yield modes
    finally:
        first.remove()
        second.remove()


def _kind(module: Any) -> str:
    return str(getattr(module, "original_name", type(module).__name__))


def _differs_in_training(module: Any) -> bool:
    """Dropout that drops, norms that take the statistics of the batch, and RReLU."""
    import torch
    from torch import nn

    kind = _kind(module)
    if isinstance(module, torch.jit.ScriptModule):
        return kind.startswith(("BatchNorm", "SyncBatchNorm")) or ("Dropout" in kind and getattr(module, "p", 1.0) > 0)
    if isinstance(module, nn.modules.dropout._DropoutNd):
        return module.p > 0
    if isinstance(module, nn.modules.batchnorm._BatchNorm | nn.RReLU):
        return True
    if isinstance(module, nn.modules.instancenorm._InstanceNorm):
        return bool(module.track_running_stats)
    if isinstance(module, nn.RNNBase):
        return module.dropout > 0 and module.num_layers > 1
    return isinstance(module, nn.MultiheadAttention) and module.dropout > 0
