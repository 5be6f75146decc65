"""An evaluation that a loop without loaders makes in the round of its training step: its model called once more.

What is called without gradients before the step may make targets. After it, on what the step was trained on (a whole
graph, of which other places are held out), it is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.modules import Arguments, ModuleWatch, Names
from mlcheck.probe.measure.tree import leaves
from mlcheck.trial.trial import Trial

_ROUNDS = 2


@dataclass(frozen=True, slots=True)
class AfterStep:
    """The dropout and batch-norm modules that ran in training mode within such calls, in each of two rounds.

    `modal` counts all that ran in the last one.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 9

    training: tuple[tuple[str, Location], ...]
    modal: int

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - two steps, whatever the limit
        if trial.evaluate_step is not None:
            raise NotMeasured("the trial has an evaluation step of its own")
        names, rounds = Names(trial.models), []
        for index, batch in enumerate(first_batches(trial, _ROUNDS)):
            rounds.append(seen := _Round())
            seen.watch(trial, batch, index)
        if not all(seen.looked for seen in rounds):
            raise NotMeasured("no model is called again on the same, without gradients, after each step")
        kept = set.intersection(*({module for module, training, _ in seen.ran if training} for seen in rounds))
        found = {module: place for module, _, place in rounds[-1].ran if module in kept}
        modal = len({module for module, _, _ in rounds[-1].ran})
        return cls(tuple((names.module(module), place) for module, place in found.items()), modal)


class _Round:
    """One step: `looked` counts the calls after it, `ran` holds what depends on the mode in them."""

    def __init__(self) -> None:
        self.looked = 0
        self.ran: list[tuple[nn.Module, bool, Location]] = []
        self._stepped = False
        self._trained_on: list[tuple[nn.Module, list[Tensor]]] = []
        self._begun = (False, 0)
        self._modules = ModuleWatch(intervene=self._enter, reply=self._leave)

    def watch(self, trial: Trial, batch: Any, index: int) -> None:
        hook = register_optimizer_step_post_hook(self._step)
        try:
            with self._modules:
                trial.train_step(batch, index)
        finally:
            hook.remove()

    def _step(self, *_: Any) -> None:
        self._stepped = True

    def _enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        given, grad = [tensor for _, tensor in leaves((args, kwargs))], torch.is_grad_enabled()
        looks = (
            self._stepped
            and not grad
            and any(module is other and _same(given, known) for other, known in self._trained_on)
        )
        if grad and not self._stepped:
            self._trained_on.append((module, given))
        self._begun = looks, len(self._modules.modal)
        return args, kwargs

    def _leave(self, output: Any) -> Any:
        looks, start = self._begun
        if looks:
            self.looked += 1
            self.ran += [(call.module, call.training, call.place) for call in self._modules.modal[start:]]
        self._begun = False, 0
        return output


def _same(given: list[Tensor], known: list[Tensor]) -> bool:
    return len(given) == len(known) > 0 and all(
        one is other or (one.layout is other.layout is torch.strided and torch.equal(one, other))
        for one, other in zip(given, known)
    )
