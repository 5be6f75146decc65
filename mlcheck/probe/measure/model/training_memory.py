"""What training holds in memory for every module: weights, gradients, optimizer state, and what backward will need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.optim.optimizer import register_optimizer_step_post_hook

from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.model.model_calls import CapturedCall
from mlcheck.probe.measure.tree import copied, leaves
from mlcheck.trial.trial import Trial

_MOST_STEPS = 8


@dataclass(frozen=True, slots=True)
class ModuleMemory:
    """Bytes of a module's own: of its parameters, their gradients, what the optimizers keep for them.

    `saved` is what its forward pass of the whole batch keeps for backward, outside of parameters, buffers and the
    batch itself; each tensor counts once, at the module that was first to keep it.
    """

    name: str
    kind: str
    weights: int = 0
    gradients: int = 0
    optimizer: int = 0
    saved: int = 0

    @property
    def state(self) -> int:
        return self.weights + self.gradients + self.optimizer


def training_memory(trial: Trial, call: CapturedCall) -> tuple[ModuleMemory, ...]:
    """Of every module that holds something, in order. Steps until an optimizer has, to see what it keeps."""
    _step(trial)
    state = {id(p): kept for optimizer in trial.optimizers.values() for p, kept in optimizer.state.items()}
    saved = _saved(call)
    counted: set[int] = set()
    found = []
    for name, module in call.module.named_modules():
        own = [p for p in module.parameters(recurse=False) if id(p) not in counted]
        counted |= {id(p) for p in own}
        memory = ModuleMemory(name or type(module).__name__, type(module).__name__, saved=saved.get(module, 0))
        for parameter in own:
            size = parameter.nbytes
            memory = replace(
                memory,
                weights=memory.weights + size,
                gradients=memory.gradients + size * parameter.requires_grad,
                optimizer=memory.optimizer + sum(tensor.nbytes for _, tensor in leaves(state.get(id(parameter), {}))),
            )
        if memory.state or memory.saved:
            found.append(memory)
    return tuple(found)


def _step(trial: Trial) -> None:
    """Gradients may be collected over several batches before an optimizer steps."""
    stepped: list[Any] = []
    batch = first_batches(trial, 1)[0]
    with ExitStack() as undo:
        undo.callback(register_optimizer_step_post_hook(lambda *_: stepped.append(1)).remove)
        for step in range(_MOST_STEPS):
            trial.train_step(batch, step)
            if stepped:
                return


def _saved(call: CapturedCall) -> dict[nn.Module, int]:
    """Bytes that each module keeps for backward; nothing where the model does not run by itself in training mode."""
    known = [*call.module.parameters(), *call.module.buffers(), *(t for _, t in leaves((call.args, call.kwargs)))]
    args, kwargs = copied(call.args), copied(call.kwargs)
    known += [tensor for _, tensor in leaves((args, kwargs))]
    seen: dict[int, Tensor] = {_place(tensor): tensor for tensor in known}
    found: dict[nn.Module, int] = {}
    running: list[nn.Module] = []

    def pack(tensor: Tensor) -> Tensor:
        place = _place(tensor)
        if place not in seen:
            seen[place] = tensor  # held, so that no other tensor comes to lie there
            module = running[-1] if running else call.module
            found[module] = found.get(module, 0) + _bytes(tensor)
        return tensor

    with suppress(Exception), _followed(call.module, running), saved_tensors_hooks(pack, lambda tensor: tensor):
        with torch.enable_grad():
            call.module(*args, **kwargs)
        return found
    return {}


@contextmanager
def _followed(model: nn.Module, running: list[nn.Module]) -> Iterator[None]:
    """Within, `running` holds the modules under way, the innermost last."""

    def begin(module: nn.Module, _: Any) -> None:
        running.append(module)

    def end(*_: Any) -> None:
        running.pop()

    with ExitStack() as undo:
        for module in model.modules():
            undo.callback(module.register_forward_pre_hook(begin).remove)
            undo.callback(module.register_forward_hook(end, always_call=True).remove)
        yield


def _place(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr() if tensor.layout is torch.strided else id(tensor)


def _bytes(tensor: Tensor) -> int:
    """What a tensor keeps alive: its whole storage, also where it is a part of it."""
    return tensor.untyped_storage().nbytes() if tensor.layout is torch.strided else tensor.nbytes
