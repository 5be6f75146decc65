"""The user's own loop on one small batch, over and over: can it memorise, and does it need the input to?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import Clock, first_batches, inconclusive, seed_all
from mlcheck.probe.measure.floors import Floors, confusion_floor, floors, mean_loss
from mlcheck.probe.measure.gradients import GradientWatch
from mlcheck.probe.measure.losses import LossCall, LossWatch, graph_nodes
from mlcheck.probe.measure.measurement import Reach
from mlcheck.probe.measure.modules import Arguments, Intervention, ModuleWatch
from mlcheck.probe.measure.tree import batch_size, leaves, map_tensors, rows
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

SAMPLES = 16
MAX_STEPS = 300
_SEED = 0
_DIVERGED = 1e3


@dataclass(frozen=True, slots=True)
class Curve:
    """The loss at each step of one run. `learning_rate` is what it began with; the program may have moved it."""

    name: str
    values: tuple[float, ...]
    learning_rate: float
    diverged: bool = False
    learning_rate_moved: bool = False

    @property
    def best(self) -> float:
        return min(self.values, default=float("inf"))

    def reached(self, target: float) -> bool:
        return self.best <= target

    @property
    def steps(self) -> int:
        return len(self.values)


@dataclass(frozen=True, slots=True)
class Overfit:
    """Curves of one batch memorised: by the program as it is, by Adam in its place, and without the input.

    `floors` are None where the loss has no known floor. `whole` says that the recognised loss is all that is
    minimised, so that it has to fall; `heads` counts the recognised losses: with several, values are
    shares of each one's floor and the worst counts. Regularisation is off, random numbers are the same in
    every step, schedules are held at their nominal learning rate.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 90

    samples: int
    kind: str
    place: Location
    floors: Floors | None
    whole: bool
    heads: int
    mine: Curve
    adam: tuple[Curve, ...] = ()
    zero: Curve | None = None
    permuted: Curve | None = None
    scheduled: bool = False

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        experiment = _Experiment(trial, min(10.0, seconds / 6))
        mine = experiment.run("your optimizer")
        found = experiment.floors
        reached = mine.reached(experiment.goal)
        adam: list[Curve] = []
        for rate in () if reached else (1e-3, 1e-2):
            adam.append(experiment.run(f"Adam {rate:g}", adam=rate))
            if adam[-1].reached(experiment.goal):
                break
        best = mine if reached else min(adam, key=lambda curve: curve.best)
        substitute = None if reached else best.learning_rate
        steps = min(MAX_STEPS, max(best.steps, 20))
        return cls(
            samples=experiment.samples,
            kind=experiment.kind,
            place=experiment.place,
            floors=found,
            whole=experiment.whole,
            heads=experiment.heads,
            mine=mine,
            adam=tuple(adam),
            zero=experiment.control("input zeroed", _zeroed, substitute, steps),
            permuted=experiment.control("input permuted", _permuter(experiment.samples), substitute, steps),
            scheduled=bool(trial.schedulers),
        )

    @property
    def goal(self) -> float:
        return self.floors.target if self.floors else 0.1 * self.mine.values[0]


class _Experiment:
    """Runs of the same batch from the same state, each undone afterwards."""

    def __init__(self, trial: Trial, seconds: float) -> None:
        self._trial = trial
        self._seconds = seconds
        self._batch, self.samples = _small_batch(trial)
        self._first: list[LossCall] = []
        self._root: list[float] = []
        self.whole = True
        self._initial = 0.0
        self._same_targets = True
        self._look()

    def _look(self) -> None:
        """One step, to see what the loss is made of."""
        scene = _Scene(self._trial, self._batch)
        with restored(self._trial):
            scene.step(0)
        if not scene.backwards:
            raise inconclusive("the training step calls no backward, so there is no loss to follow")
        if len(scene.stepped) > 1:
            raise inconclusive("several optimizers take turns within a step (as in a GAN): no single loss has to fall")
        self._first = scene.contributing
        self.whole = bool(self._first) and scene.whole
        self.heads = len(self._first)
        self.kind = self._first[0].kind if self._first else ""
        self.place = self._first[0].place if self._first else scene.backwards[0].place
        self._floors = [self._floors_of(call, scene.inputs) for call in self._first]
        self._keys = [(call.kind, call.place) for call in self._first]
        if self.floors and not self.floors.constant - self.floors.irreducible > 1e-9:
            raise inconclusive(f"all {self.samples} targets of the batch are the same, so there is nothing to memorise")

    def _floors_of(self, call: LossCall, inputs: list[Tensor]) -> Floors | None:
        found = floors(call, self.samples)
        if found is None:
            return None
        rows_only = [tensor for tensor in inputs if tensor.ndim and tensor.shape[0] == self.samples]
        confused = confusion_floor(rows_only, call, self.samples) if rows_only else 0.0
        return Floors(found.constant, max(found.irreducible, min(confused, found.constant)))

    @property
    def floors(self) -> Floors | None:
        if not self._floors or any(found is None for found in self._floors):
            return None
        return self._floors[0] if self.heads == 1 else Floors(1.0, 0.0)

    @property
    def goal(self) -> float:
        return self.floors.target if self.floors else 0.1 * self._initial

    def run(
        self, name: str, adam: float | None = None, intervene: Intervention | None = None, steps: int = MAX_STEPS
    ) -> Curve:
        clock, reached, diverged, moved = Clock(self._seconds), 0, False, False
        values: list[float] = []
        with restored(self._trial), _unregularised(self._trial), ExitStack() as stack:
            if adam is not None:
                stack.enter_context(_replaced_by_adam(self._trial, adam))
            rate = adam if adam is not None else _learning_rate(self._trial)
            scene = _Scene(self._trial, self._batch, intervene)
            while len(values) < steps and clock.left() and reached < 2:
                scene.step(len(values))
                values.append(self._value(scene))
                if len(values) == 1 and name == "your optimizer":
                    self._initial = values[0]
                moved = adam is None and _learning_rate(self._trial) != rate
                diverged = not abs(values[-1]) < _DIVERGED * max(abs(values[0]), self._scale())
                if diverged:
                    break
                reached = reached + 1 if values[-1] <= self.goal and not intervene else 0
        finite = tuple(value if abs(value) < float("inf") else float("inf") for value in values)
        return Curve(name, finite, rate, diverged, moved)

    def control(self, name: str, intervene: Intervention, adam: float | None, steps: int) -> Curve | None:
        """None where the intervention does not reach the model, or breaks the program or its targets."""
        reached = _Reach(intervene)
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
        shares = [_share(value, found) for value, found in zip(values, self._floors) if found]
        return max(shares)


def _share(value: float, found: Floors) -> float:
    return (value - found.irreducible) / max(found.constant - found.irreducible, 1e-12)


class _Scene:
    """Steps on one batch, each with the same random numbers and everything of interest recorded."""

    def __init__(self, trial: Trial, batch: Any, intervene: Intervention | None = None) -> None:
        self._trial, self._batch, self._intervene = trial, batch, intervene
        self.calls: list[LossCall] = []
        self.contributing: list[LossCall] = []
        self.whole = True

    def step(self, index: int) -> None:
        losses = LossWatch(keep_dropout=False)
        modules = ModuleWatch(self._intervene)
        gradients = GradientWatch([], (lambda root: self._trace(root, losses)) if index == 0 else None)
        seed_all(_SEED)
        with losses, modules, gradients:
            self._trial.train_step(map_tensors(self._batch, torch.Tensor.clone), index)
        self.calls = losses.calls
        self.backwards = gradients.backwards
        self.root = float(sum(float(backward.root.sum()) for backward in self.backwards))
        self.stepped = gradients.stepped
        self.inputs = [
            tensor for call in modules.calls[:1] for _, tensor in leaves((call.args, call.kwargs)) if tensor.numel()
        ]

    def _trace(self, root: Tensor, losses: LossWatch) -> None:
        nodes = graph_nodes(root)
        mine = [call for call in losses.calls if call.node in nodes]
        self.contributing += mine
        self.whole = self.whole and len(mine) == 1 and _only_scaled(root.grad_fn, mine[0].node)


def _only_scaled(node: Any, goal: Any) -> bool:
    """Whether nothing was added between a loss and what backward was called on."""
    while node is not None and node is not goal:
        parents = [parent for parent, _ in node.next_functions if parent is not None]
        if len(parents) != 1:
            return False
        node = parents[0]
    return node is goal


class _Reach:
    """An intervention that remembers whether it changed anything."""

    def __init__(self, intervene: Intervention) -> None:
        self._intervene = intervene
        self.happened = False

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        changed = self._intervene(module, args, kwargs)
        before, after = leaves((args, kwargs)), leaves(changed)
        self.happened |= any(old is not new for (_, old), (_, new) in zip(before, after))
        return changed


def _zeroed(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    return map_tensors((args, kwargs), lambda t: t if t.requires_grad else torch.zeros_like(t))  # type: ignore[no-any-return]


def _permuter(samples: int) -> Intervention:
    """Deals the inputs of a call out to other samples, differently every time."""
    generator = torch.Generator().manual_seed(_SEED)

    def permute(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        order = torch.randperm(samples, generator=generator)

        def dealt(tensor: Tensor) -> Tensor:
            fits = not tensor.requires_grad and tensor.ndim and tensor.shape[0] == samples
            return tensor[order.to(tensor.device)] if fits else tensor

        return map_tensors((args, kwargs), dealt)  # type: ignore[no-any-return]

    return permute


def _small_batch(trial: Trial) -> tuple[Any, int]:
    """Up to 16 distinct samples of a real batch; the whole batch where samples cannot be told apart."""
    batch = first_batches(trial, 1)[0]
    size = batch_size(batch)
    if size is None:
        return batch, max((tensor.shape[0] for _, tensor in leaves(batch) if tensor.ndim), default=1)
    whole = torch.arange(size)
    index = _distinct(batch, size)[:SAMPLES]
    small = rows(batch, index)
    try:
        with restored(trial):
            trial.train_step(map_tensors(small, torch.Tensor.clone), 0)
    except Exception:  # a loop that insists on its batch size keeps it
        return rows(batch, whole), size
    return small, len(index)


def _distinct(batch: Any, size: int) -> Tensor:
    flat = torch.cat([tensor.detach().cpu().reshape(size, -1).double() for _, tensor in leaves(batch)], dim=1)
    _, group = torch.unique(flat, dim=0, return_inverse=True)
    seen: set[int] = set()
    return torch.tensor([i for i, g in enumerate(group.tolist()) if not (g in seen or seen.add(g))])  # type: ignore[func-returns-value]


def _learning_rate(trial: Trial) -> float:
    return max((float(group["lr"]) for opt in trial.optimizers.values() for group in opt.param_groups), default=0.0)


@contextmanager
def _unregularised(trial: Trial) -> Iterator[None]:
    """No weight decay, no dropout inside fused modules, schedules held at the rate they are named by."""
    with ExitStack() as stack:
        for model in trial.models.values():
            for module in model.modules():
                if isinstance(module, (nn.RNNBase, nn.MultiheadAttention)):
                    stack.enter_context(_attribute(module, "dropout", 0.0))
        for scheduler in trial.schedulers.values():
            stack.enter_context(_attribute(scheduler, "step", lambda *_, **__: None))
        for optimizer in trial.optimizers.values():
            for group in optimizer.param_groups:
                stack.enter_context(_entries(group, _plain(group, bool(trial.schedulers))))
        yield


def _plain(group: dict[str, Any], scheduled: bool) -> dict[str, Any]:
    nominal = group.get("max_lr", group.get("initial_lr", group["lr"])) if scheduled else group["lr"]
    changes = {"lr": nominal if not isinstance(group["lr"], Tensor) else group["lr"]}
    if "weight_decay" in group:
        changes["weight_decay"] = 0.0
    return changes


@contextmanager
def _replaced_by_adam(trial: Trial, rate: float) -> Iterator[None]:
    """The user's loop calls its optimizers as before; Adam does the updates."""
    with ExitStack() as stack:
        for optimizer in trial.optimizers.values():
            stack.enter_context(_attribute(optimizer, "step", _adam_step(optimizer, rate)))
        yield


def _adam_step(optimizer: Optimizer, rate: float) -> Callable[..., Any]:
    adam = Adam([parameter for group in optimizer.param_groups for parameter in group["params"]], lr=rate)

    def step(closure: Callable[[], Any] | None = None, **_: Any) -> Any:
        return adam.step(closure)

    return step


@contextmanager
def _attribute(owner: object, name: str, value: Any) -> Iterator[None]:
    own = name in vars(owner)
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if own:
            setattr(owner, name, before)
        else:
            delattr(owner, name)


@contextmanager
def _entries(mapping: dict[str, Any], changes: dict[str, Any]) -> Iterator[None]:
    before = {name: mapping[name] for name in changes}
    mapping.update(changes)
    try:
        yield
    finally:
        mapping.update(before)
