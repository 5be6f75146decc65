"""What becomes of the models that DistributedDataParallel wraps, and of the weights at every optimizer step."""

from __future__ import annotations

import zlib
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from mlcheck.trial.ranks.journal import Journal
from mlcheck.trial.ranks.story import JOINS, NOWHERE, Calls, Step, Wrapped
from mlcheck.trial.traceback import user_line


class Enough(BaseException):
    """The rank has seen what it is to see. No Exception, so that the program does not take it for its own error."""


@dataclass
class _Model:
    """A wrapped model and what its weights were when it was wrapped. `called` since the last backward, to average."""

    name: str
    wrapper: DistributedDataParallel
    weights: dict[str, nn.Parameter]
    kinds: dict[str, tuple[torch.dtype, torch.device]]
    called: bool | None = None
    averaged: int = 0
    unaveraged: int = 0
    raw: int = 0
    raw_place: tuple[str, int] = NOWHERE
    parts: set[int] = field(default_factory=set)


class ModelWatch:
    """While installed, notes wrappers, the calls of their models and every optimizer step; ends it after `most` steps.

    `taken` counts the batches that were drawn since the last step, `backwards` the backward passes.
    """

    def __init__(self, journal: Journal, most: int) -> None:
        self._journal, self._most = journal, most
        self._models: list[_Model] = []
        self._inside = 0
        self._joins = False
        self._unused: tuple[str, ...] = ()
        self._optimizers: list[Optimizer] = []
        self._stepping: list[Optimizer] = []
        self._stack = ExitStack()
        self.steps = self.calls = 0
        self.backwards = self.taken = 0
        self.all_backwards = 0

    def install(self) -> None:
        for owner, name, value in (
            (DistributedDataParallel, "__init__", self._wrapping(DistributedDataParallel.__init__)),
            (DistributedDataParallel, "forward", self._entering(DistributedDataParallel.forward)),
            (torch.autograd, "backward", self._counting(torch.autograd.backward)),
        ):
            self._stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)
        self._stack.callback(register_module_forward_pre_hook(self._called).remove)
        self._stack.callback(register_optimizer_step_pre_hook(self._steps).remove)
        self._stack.callback(register_optimizer_step_post_hook(self._stepped).remove)

    def remove(self) -> None:
        self._stack.close()

    def unused(self) -> tuple[str, ...]:
        """Weights of wrapped models that the last step found without a gradient, while others had one."""
        return self._unused

    def _wrapping(self, original: Any) -> Any:
        def __init__(wrapper: Any, module: nn.Module, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            place = user_line()
            original(wrapper, module, *args, **kwargs)
            weights = dict(module.named_parameters())
            name = type(module).__name__
            taken = sum(model.name.partition(" ")[0] == name for model in self._models)
            model = _Model(
                f"{name} {taken + 1}" if taken else name,
                wrapper,
                weights,
                {key: (weight.dtype, weight.device) for key, weight in weights.items()},
                parts={id(part) for part in module.modules()},
            )
            self._models.append(model)
            self._journal.note(Wrapped(model.name, len(weights), bool(wrapper.find_unused_parameters), place))

        return __init__

    def _entering(self, original: Any) -> Any:
        def forward(wrapper: Any, *args: Any, **kwargs: Any) -> Any:
            model = next((model for model in self._models if model.wrapper is wrapper), None)
            if model and torch.is_grad_enabled() and wrapper.training:
                model.called = bool(wrapper.require_backward_grad_sync)
                if wrapper._join_config.enable and not self._joins:
                    self._joins = True
                    self._journal.tell("notice", JOINS)
            self._inside += 1
            try:
                return original(wrapper, *args, **kwargs)
            finally:
                self._inside -= 1

        return forward

    def _called(self, module: nn.Module, _: Any) -> None:
        self.calls += 1
        if self._inside or not torch.is_grad_enabled() or not module.training:
            return
        for model in self._models:
            if id(module) in model.parts and model.wrapper is not module:
                model.raw += 1
                model.raw_place = user_line()

    def _counting(self, original: Any) -> Any:
        def backward(*args: Any, **kwargs: Any) -> None:
            self.backwards += 1
            self.all_backwards += 1
            for model in self._models:
                model.averaged += model.called is True
                model.unaveraged += model.called is False
                model.called = None
            original(*args, **kwargs)

        return backward

    def _steps(self, optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
        """All is still: the gradients are final, and every rank has what the step before has made of the weights."""
        if self._stepping:  # an optimizer that shards its state steps another within
            return
        if self.steps >= self._most:
            raise Enough
        self._stepping.append(optimizer)
        self.note_step(optimizer)
        self.steps += 1

    def _stepped(self, optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
        if self._stepping and self._stepping[0] is optimizer:
            self._stepping.clear()

    def note_step(self, optimizer: Optimizer | None) -> None:
        if optimizer is not None and not any(optimizer is known for known in self._optimizers):
            self._optimizers.append(optimizer)
        number = next((i for i, known in enumerate(self._optimizers) if known is optimizer), -1)
        weights = self._weights()
        self._unused = self._without_gradient() if optimizer else self._unused
        held = {id(weight) for group in optimizer.param_groups for weight in group["params"]} if optimizer else set()
        self._journal.note(
            Step(
                optimizer=number,
                gradients={name: _digest(weight.grad) for name, weight in weights.items() if id(weight) in held},
                weights={name: _digest(weight) or 0 for name, weight in weights.items()},
                calls={m.name: Calls(m.averaged, m.unaveraged, m.raw, m.raw_place) for m in self._models},
                changed=self._changed(),
                backwards=self.backwards,
                batches=self.taken,
                rates=tuple(float(group["lr"]) for group in optimizer.param_groups) if optimizer else (),
                place=user_line(),
            )
        )
        for model in self._models:
            model.averaged = model.unaveraged = model.raw = 0
        self.backwards = self.taken = 0

    def _without_gradient(self) -> tuple[str, ...]:
        found: list[str] = []
        for model in self._models:
            trained = {name: weight for name, weight in model.weights.items() if weight.requires_grad}
            without = [name for name, weight in trained.items() if weight.grad is None]
            found += without if len(without) < len(trained) else []
        return tuple(found)

    def _weights(self) -> dict[str, Tensor]:
        """Those of the wrapped models as they are now, and whatever else is trained; none that is spread over ranks."""
        found: dict[str, Tensor] = {}
        for model in self._models:
            alone = len(self._models) == 1
            for name, weight in model.wrapper.module.named_parameters():
                found[name if alone else f"{model.name}.{name}"] = weight
        known = {id(weight) for weight in found.values()}
        for number, optimizer in enumerate(self._optimizers):
            for place, group in enumerate(optimizer.param_groups):
                for index, weight in enumerate(group["params"]):
                    if id(weight) not in known and not _is_spread(weight):
                        shape = "x".join(map(str, weight.shape)) or "scalar"
                        found[f"weight {index} ({shape}) of group {place} of optimizer {number}"] = weight
                        known.add(id(weight))
        return found

    def _changed(self) -> dict[str, str]:
        """What became of the weights of each wrapped model that its wrapper does not know of."""
        changed: dict[str, str] = {}
        for model in self._models:
            now = dict(model.wrapper.module.named_parameters())
            new = [name for name, weight in now.items() if model.weights.get(name) is not weight]
            for name, weight in now.items():
                was = model.kinds.get(name)
                if name not in new and was and was != (weight.dtype, weight.device):
                    told = [
                        f"{a} to {b}".replace("torch.", "")
                        for a, b in zip(was, (weight.dtype, weight.device))
                        if a != b
                    ]
                    changed[model.name] = f"`{name}` went from {told[0]} after the model was wrapped"
                    break
            if new:
                changed[model.name] = f"`{new[0]}` is another parameter than when the model was wrapped"
        return changed


def _is_spread(weight: Tensor) -> bool:
    """Whether each rank holds a part only, as under FSDP and tensor parallelism."""
    return isinstance(weight, DTensor) or type(weight).__name__ == "FlatParameter"


def _digest(tensor: Tensor | None) -> int | None:
    if tensor is None or _is_spread(tensor):
        return None
    dense = tensor.detach().to_dense() if tensor.layout is not torch.strided else tensor.detach()
    return zlib.crc32(dense.cpu().contiguous().view(-1).view(torch.uint8).numpy().data) if dense.numel() else 0
