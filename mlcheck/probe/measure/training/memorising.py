"""Runs of the user's own loop on one batch, over and over, and the loss at each step."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from mlcheck.probe.measure.autograd_graph import graph_nodes
from mlcheck.probe.measure.drive import Clock, inconclusive
from mlcheck.probe.measure.loss.floors import Floors, confusion_floor, floors, lowest, mean_loss
from mlcheck.probe.measure.loss.losses import LossCall, LossWatch
from mlcheck.probe.measure.model.interventions import Reach
from mlcheck.probe.measure.modules import Intervention, ModuleWatch
from mlcheck.probe.measure.simplified import learning_rate, replaced_by_adam, unregularised
from mlcheck.probe.measure.training.gradients import GradientWatch, single_loss
from mlcheck.probe.measure.training.small_batch import small_batch
from mlcheck.probe.measure.tree import leaves, map_tensors
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

MAX_STEPS = 300
_SEED = 0
_DIVERGED = 1e3
_ROOM = 1e-9


@dataclass(frozen=True, slots=True)
class Curve:
    """The loss at each step of one run. `learning_rate` is what it began with; the program may have moved it."""

    name: str
    values: tuple[float, ...]
    learning_rate: float
    diverged: bool = False
    learning_rate_moved: bool = False

    @property
    def rises(self) -> bool:
        return self.diverged or self.values[-1] > 1.5 * self.values[0]

    @property
    def best(self) -> float:
        return min(self.values, default=float("inf"))

    def reached(self, target: float) -> bool:
        return self.best <= target

    @property
    def steps(self) -> int:
        return len(self.values)


class Experiment:
    """Runs of the same batch from the same state, each undone afterwards."""

    def __init__(self, trial: Trial, seconds: float) -> None:
        self._trial = trial
        self._seconds = seconds
        self._batch, self.samples = small_batch(trial)
        self._first: list[LossCall] = []
        self.whole = True
        self._initial: float | None = None
        self._same_targets = True
        self._look()

    def _look(self) -> None:
        """One step, to see what the loss is made of."""
        scene = _Scene(self._trial, self._batch)
        with restored(self._trial):
            scene.step(0)
        single_loss(scene.gradients, self._trial.optimizers.values())
        self._first = scene.contributing
        if self._first and self._first[0].target.ndim and not any(True for _ in leaves(self._batch)):
            self.samples = len(self._first[0].target)  # the program's own batch
        self.whole = bool(self._first) and scene.whole
        self.walked = scene.walked
        self.heads = len(self._first)
        self.kind = self._first[0].kind if self._first else ""
        self.made_by = self._first[0].bounded_by if self.heads == 1 else ""
        self.lowest = lowest(self._first[0]) if self.heads == 1 else None
        self.place = self._first[0].place if self._first else scene.backwards[0].place
        self._floors = [self._floors_of(call, scene.inputs) for call in self._first]
        self._keys = [(call.kind, call.place) for call in self._first]
        if self.floors and not any(found and found.room > _ROOM for found in self._floors):
            differ = any(found and found.constant > _ROOM for found in self._floors)
            alike = "inputs" if differ else "targets"
            raise inconclusive(f"all {self.samples} {alike} of the batch are the same, so there is nothing to memorise")

    def _floors_of(self, call: LossCall, inputs: list[Tensor]) -> Floors | None:
        found = floors(call, self.samples)
        if found is None:
            return None
        rows = [tensor for tensor in inputs if tensor.ndim and tensor.shape[0] == self.samples]
        told = [*rows[:1], *(tensor for tensor in rows[1:] if not _is_target(tensor, call))]
        confused = confusion_floor(told, call, self.samples) if told else 0.0
        return Floors(found.constant, max(found.irreducible, min(confused, found.constant)))

    @property
    def floors(self) -> Floors | None:
        if not self._floors or any(found is None for found in self._floors):
            return None
        return self._floors[0] if self.heads == 1 else Floors(1.0, 0.0)

    @property
    def goal(self) -> float:
        return self.floors.target if self.floors else 0.1 * (self._initial or 0.0)

    def run(
        self,
        name: str,
        adam: float | None = None,
        intervene: Intervention | None = None,
        steps: int = MAX_STEPS,
        decayed: bool = False,
    ) -> Curve:
        clock, reached, diverged, moved = Clock(self._seconds), 0, False, False
        values: list[float] = []
        with restored(self._trial), unregularised(self._trial, decayed), ExitStack() as stack:
            if adam is not None:
                stack.enter_context(replaced_by_adam(self._trial, adam))
            rate = adam if adam is not None else learning_rate(self._trial)
            scene = _Scene(self._trial, self._batch)
            watch = stack.enter_context(ModuleWatch(intervene)) if intervene else None
            while len(values) < steps and clock.left() and reached < 2:
                values.append(self._step(scene, len(values)))
                if watch:
                    watch.calls.clear()  # what a step computes is no input of the next
                self._initial = values[0] if self._initial is None else self._initial
                moved = adam is None and learning_rate(self._trial) != rate
                diverged = not abs(values[-1]) < _DIVERGED * max(abs(values[0]), self._scale())
                if diverged:
                    break
                reached = reached + 1 if values[-1] <= self.goal and not intervene else 0
        finite = tuple(value if abs(value) < float("inf") else float("inf") for value in values)
        return Curve(name, finite, rate, diverged, moved)

    def _step(self, scene: _Scene, index: int) -> float:
        try:
            scene.step(index)
        except Exception as error:
            if not index:
                raise
            raise inconclusive(
                f"the training step raised {type(error).__name__} at step {index} on one batch"
            ) from error
        return self._value(scene)

    def with_adam(self, rate: float) -> Curve | None:
        """None where Adam cannot take the optimizer's place (sparse gradients)."""
        try:
            return self.run(f"Adam {rate:g}", adam=rate)
        except RuntimeError:
            return None

    def control(self, name: str, intervene: Intervention, adam: float | None, steps: int) -> Curve | None:
        """None where the intervention does not reach the model, or breaks the program or its targets."""
        reached = Reach(intervene)
        try:
            curve = self.run(name, adam, reached, steps)
        except Exception:  # zeros where lengths or indices are meant: the program has no such control
            return None
        return curve if reached.happened and self._same_targets else None

    def _scale(self) -> float:
        return self.floors.constant if self.floors else 1.0

    def _value(self, scene: _Scene) -> float:
        calls = [call for call in scene.calls if (call.kind, call.place) in self._keys]
        if len(calls) != self.heads or not calls:
            return scene.root
        self._same_targets = all(
            a.target.shape == b.target.shape and torch.equal(a.target, b.target) for a, b in zip(calls, self._first)
        )
        values = [mean_loss(call) for call in calls]
        if self.heads == 1 or self.floors is None:
            return values[0] if self.heads == 1 else sum(values)
        judged = [(value, found) for value, found in zip(values, self._floors) if found and found.room > _ROOM]
        return max((value - found.irreducible) / found.room for value, found in judged)


class _Scene:
    """Steps on one batch, each with the same random numbers and everything of interest recorded."""

    def __init__(self, trial: Trial, batch: Any) -> None:
        self._trial, self._batch = trial, batch
        self.calls: list[LossCall] = []
        self.contributing: list[LossCall] = []
        self.inputs: list[Tensor] = []
        self.whole = True
        self.walked = 0

    def step(self, index: int) -> None:
        losses = LossWatch(keep_dropout=False, keep_results=index == 0)
        modules = ModuleWatch(observe=self._walk)
        gradients = GradientWatch([], (lambda root: self._trace(root, losses)) if index == 0 else None)
        seed_all(_SEED)
        with losses, modules if index == 0 else nullcontext(), gradients:  # to watch takes its time
            self._trial.train_step(map_tensors(self._batch, torch.Tensor.clone), index)
        self.calls = losses.calls
        for call in self.calls:
            call.result = None
        self.gradients, self.backwards = gradients, gradients.backwards
        self.root = float(sum(float(backward.root.sum()) for backward in self.backwards))
        if index == 0:
            given = [leaves((call.args, call.kwargs)) for call in modules.calls[:1]]
            self.inputs = [tensor for found in given for _, tensor in found if tensor.numel()]

    def _walk(self, module: nn.Module, output: Any) -> None:
        """How many steps a recurrent layer takes, one after the other."""
        if not isinstance(module, nn.RNNBase):
            return
        packed = isinstance(output[0], PackedSequence)
        steps = len(output[0].batch_sizes) if packed else output[0].shape[1 if module.batch_first else 0]
        self.walked = max(self.walked, steps)

    def _trace(self, root: Tensor, losses: LossWatch) -> None:
        nodes = graph_nodes(root)
        mine = [call for call in losses.calls if call.node in nodes]
        self.contributing += mine
        self.whole = self.whole and len(mine) == 1 and _only_scaled(root.grad_fn, mine[0].node)
        self.whole = self.whole and _every_element_counts(root, mine[0])


def _every_element_counts(root: Tensor, call: LossCall) -> bool:
    """Whether none of the loss's elements is left out, as by a mask that it is multiplied by."""
    if call.result is None or call.result.numel() == 1 or not call.result.requires_grad:
        return True
    pulls: list[Tensor | None] = list(
        torch.autograd.grad(root.sum(), [call.result], retain_graph=True, allow_unused=True)
    )
    return all(pull is None or bool((pull != 0).all()) for pull in pulls)


def _is_target(tensor: Tensor, call: LossCall) -> bool:
    """Whether the model was given it to compute its loss itself."""
    target = call.target
    same = tensor.dtype == target.dtype and tensor.numel() == target.numel()
    return same and torch.equal(tensor.detach().reshape(-1), target.detach().reshape(-1))


def _only_scaled(node: Any, goal: Any) -> bool:
    """Whether nothing was added between a loss and what backward was called on."""
    while node is not None and node is not goal:
        parents = [parent for parent, _ in node.next_functions if parent is not None]
        if len(parents) != 1:
            return False
        node = parents[0]
    return node is goal
