"""Terms of a loss that depend on the weights it trains and give them no gradient: they are added as plain numbers.

One to the whole loss, or one for each of its samples, wherever what is added up goes on to the loss by sums and means.

What autograd says about a step along a random direction is compared with what that step does to the loss. Where the two
differ by what the plain number changes, the weights are not told of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from math import isclose
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from mlcheck.core.finding import Location
from mlcheck.probe.measure.autograd_graph import graph_nodes, summands, summed_nodes
from mlcheck.probe.measure.drive import Clock, first_batches, repeated_batches
from mlcheck.probe.measure.loss.losses import LossWatch
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.place import user_location
from mlcheck.probe.measure.simplified import stilled
from mlcheck.probe.measure.training.gradients import GradientWatch, named_parameters
from mlcheck.probe.measure.tree import copied
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

BATCHES = 3
WARM_UP = 100
STEP = 1e-2
NEAR = 0.25
ROUNDING = 1e-5
_SIGNS = {
    "add": (1, 1), "__add__": (1, 1), "__radd__": (1, 1), "__iadd__": (1, 1), "add_": (1, 1), "stack": (1, 1),
    "sub": (1, -1), "__sub__": (1, -1), "__isub__": (1, -1), "sub_": (1, -1), "__rsub__": (-1, 1), "rsub": (-1, 1),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class AddedConstant:
    """A plain number that is added to a loss of `loss`, `value` with its sign and factor.

    The step along a random direction changes it by `change`, and the loss by `missing` more than its gradient says.
    `of_gradient` says that a gradient was asked for without a graph of its own.
    """

    value: float
    loss: float
    change: float
    missing: float
    of_gradient: bool
    place: Location


@dataclass(frozen=True, slots=True)
class AddedConstants:
    """Those of a few training steps, of `terms` numbers that were added to losses of `backwards` backward passes."""

    reach: ClassVar[Reach] = "loss"
    order: ClassVar[int] = 8

    found: tuple[AddedConstant, ...]
    terms: int
    backwards: int

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> AddedConstants:
        at_first = _looked_at(trial)
        if not at_first.backwards:
            raise NotMeasured("no backward pass was made in the training steps")
        if at_first.found or not at_first.terms or not trial.repeats_batches:
            return at_first
        clock = Clock(min(3.0, seconds / 10))
        seed_all(0)
        for index, batch in enumerate(islice(repeated_batches(trial), WARM_UP)):
            trial.train_step(batch, index)
            if not clock.left():
                break
        later = _looked_at(trial)
        return later if later.backwards else at_first


def _looked_at(trial: Trial) -> AddedConstants:
    """As the weights are: of new ones a term that compares two answers may be next to nothing."""
    found: list[AddedConstant] = []
    terms = backwards = 0
    for index, batch in enumerate(first_batches(trial, BATCHES)):
        seen = _Step(trial, batch, index)
        backwards += len(seen.sums)
        for number, total in enumerate(seen.sums):
            terms += len(total.terms)
            if total.terms:
                found += _without_gradient(trial, batch, index, number, total)
    return AddedConstants(tuple({one.place: one for one in found}.values()), terms, backwards)


@dataclass(frozen=True, slots=True)
class _Term:
    """What has no graph and is added to what has one: its numbers, and what the loss changes when each grows by one."""

    value: Tensor
    weight: Tensor
    place: Location

    def is_like(self, other: _Term) -> bool:
        return self.place == other.place and self.value.shape == other.value.shape

    def adds(self, value: Tensor) -> float:
        """What it would add to the loss if its numbers were these."""
        return float((self.weight * value).sum())


@dataclass(frozen=True, slots=True)
class _Sum:
    """What backward was called on: its value, the plain numbers in it, the slope along the direction of its weights."""

    value: float
    terms: tuple[_Term, ...]
    reached: tuple[Tensor, ...]
    slope: float


def _without_gradient(trial: Trial, batch: Any, index: int, number: int, total: _Sum) -> list[AddedConstant]:
    again, up, down = (_Step(trial, batch, index, total.reached, by) for by in (0.0, STEP, -STEP))
    others = [other.sums[number] for other in (again, up, down) if number < len(other.sums)]
    if len(others) < 3 or not all(_same_terms(one.terms, total.terms) for one in others):
        return []
    same = all(torch.equal(one.value, term.value) for one, term in zip(others[0].terms, total.terms, strict=True))
    if not same or not isclose(others[0].value, total.value, rel_tol=ROUNDING):
        return []  # nothing can be told where the same step is not the same again
    pairs = zip(total.terms, others[1].terms, others[2].terms, strict=True)
    changes = [term.adds(above.value - below.value) / 2 for term, above, below in pairs]
    missing, told = (others[1].value - others[2].value) / 2 - total.slope * STEP, sum(changes)
    if abs(told) < ROUNDING * abs(total.value) or not abs(missing - told) < NEAR * abs(told):
        return []
    return [
        AddedConstant(term.adds(term.value), total.value, change, missing, again.asked_gradient, term.place)
        for term, change in zip(total.terms, changes, strict=True)
        if change
    ]


def _same_terms(some: tuple[_Term, ...], others: tuple[_Term, ...]) -> bool:
    return len(some) == len(others) and all(one.is_like(other) for one, other in zip(some, others, strict=True))


@dataclass(frozen=True, slots=True)
class _Plain:
    """What has no graph, as it is added to `sum`, or stands there at `index`."""

    sum: Tensor
    index: int | None
    value: Tensor
    place: Location


class _Step(TorchFunctionMode):
    """One training step that changes nothing, its weights moved along a direction first."""

    def __init__(self, trial: Trial, batch: Any, index: int, moved: Iterable[Tensor] = (), by: float = 0.0) -> None:
        super().__init__()
        self.sums: list[_Sum] = []
        self.asked_gradient = False
        self._trained = {id(p) for p in named_parameters(trial.models)}
        self._plain: list[_Plain] = []
        self._detached: list[tuple[Tensor, Tensor]] = []
        self._straight: list[Tensor] = []  # where the value is one thing and the gradient another, on purpose
        watch = GradientWatch([], self._at_backward)
        with restored(trial), stilled(trial), LossWatch(keep_dropout=False), watch, self:
            with torch.no_grad():
                for parameter in moved:
                    parameter.add_(_direction(parameter), alpha=by)
            seed_all(0)
            trial.train_step(copied(batch), index)
        self._plain, self._detached, self._straight = [], [], []

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        operands = _operands(name, args, kwargs or {})
        graphs = [one for one, _ in operands if _has_graph(one)]
        values = [] if not graphs else [None if _has_graph(one) else sign * _numbers(one) for one, sign in operands]
        result = func(*args, **(kwargs or {}))  # the values are from before, as it may be in place
        if func is torch.autograd.grad:
            self.asked_gradient |= not (kwargs or {}).get("create_graph")
        if graphs and _has_graph(result):
            for index, ((one, _), value) in enumerate(zip(operands, values, strict=True)):
                if value is not None and self._is_of(one, graphs):
                    self._straight.append(result)
                elif value is not None and (isinstance(one, Tensor) or one):
                    place = index if name == "stack" else None
                    self._plain.append(_Plain(result, place, value, user_location()))
        elif (name == "detach" or operands) and isinstance(result, Tensor):
            self._cut_off(result, args if name == "detach" else [one for one, _ in operands])
        return result

    def _cut_off(self, result: Tensor, parts: Iterable[Any]) -> None:
        """Remember what a tensor without a graph is a sum of, where that has one or had."""
        for part in parts:
            before = [part] if _has_graph(part) else [whole for one, whole in self._detached if one is part]
            self._detached += [(result, whole) for whole in before]

    def _is_of(self, plain: Any, graphs: list[Tensor]) -> bool:
        """Whether it was detached from what it is added to, or from a part: a value is wanted, the other's gradient."""
        return any(
            one.grad_fn in graph_nodes(whole) or whole.grad_fn in summands(one)
            for one in graphs
            for whole in [whole for result, whole in self._detached if result is plain]
        )

    def _at_backward(self, root: Tensor) -> None:
        if root.numel() != 1 or root.grad_fn is None:
            return
        leaves = [node.variable for node in graph_nodes(root) if hasattr(node, "variable")]
        reached = tuple(leaf for leaf in leaves if id(leaf) in self._trained)
        nodes = summed_nodes(root)
        straight = any(one.grad_fn in nodes for one in self._straight)
        mine = [plain for plain in self._plain if plain.sum.grad_fn in nodes and not straight]
        found: list[Tensor | None] = []
        if mine and reached:
            asked, before = [*reached, *(plain.sum for plain in mine)], self.asked_gradient
            found += torch.autograd.grad(root, asked, retain_graph=True, allow_unused=True)
            self.asked_gradient = before
        slope = sum(float((g * _direction(p)).sum()) for p, g in zip(reached, found) if g is not None)
        weights = [(plain, g.double()) for plain, g in zip(mine, found[len(reached) :]) if g is not None]
        weights = [(plain, g if plain.index is None else g.flatten()[plain.index]) for plain, g in weights]
        terms = tuple(_Term(plain.value, weight, plain.place) for plain, weight in weights if bool(weight.any()))
        self.sums.append(_Sum(float(root.detach()), terms, reached, slope))


def _operands(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> list[tuple[Any, int]]:
    """The numbers that an operation adds, with their signs; none for any other operation."""
    signs = _SIGNS.get(name)
    if signs is None or not args or options.get("alpha", 1) != 1:
        return []
    if isinstance(args[0], (list, tuple)):
        single = all(isinstance(one, Tensor) and one.numel() == 1 for one in args[0])
        return [(one, 1) for one in args[0]] if single and len(args[0]) > 1 else []
    given = args[:2]
    real = all(isinstance(one, (int, float)) or (isinstance(one, Tensor) and not one.is_complex()) for one in given)
    return list(zip(given, signs, strict=True)) if real and len(given) == 2 else []


def _numbers(one: Any) -> Tensor:
    return one.detach().double() if isinstance(one, Tensor) else torch.tensor(float(one), dtype=torch.float64)


def _has_graph(one: Any) -> bool:
    return isinstance(one, Tensor) and one.requires_grad


def _direction(parameter: Tensor) -> Tensor:
    """A fixed random direction, as long as the parameter is."""
    draws = torch.Generator().manual_seed(parameter.numel())
    drawn = torch.randn(parameter.shape, generator=draws).to(parameter)
    return drawn * (parameter.detach().pow(2).mean().sqrt() + STEP)
