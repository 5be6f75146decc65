"""What two networks that work against each other want of the same answer: a judge's about what a maker made.

Both losses reach the judge's output for made samples. A judge pushes it one way, and its output for real samples the
other way; a maker that pushes as the judge does works for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook

from mlcheck.core.finding import Location
from mlcheck.probe.measure.autograd_graph import graph_nodes
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.place import user_location
from mlcheck.probe.measure.simplified import stilled
from mlcheck.probe.measure.training.gradients import GradientWatch
from mlcheck.probe.measure.tree import copied, leaves
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

BATCHES = 6
MAKER, JUDGE = "maker", "judge"


@dataclass(frozen=True, slots=True)
class Push:
    """Which way a step of one of the two moves the judge's output for made samples: up (1) or down (-1).

    `real` is the way it moves that for real ones; 0 where it does not, or not all the same way. `forces` are how
    strongly it moves both, made ones first.
    """

    who: str
    made: int
    real: int
    place: Location
    forces: tuple[float, float] = (1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Adversaries:
    """What the steps of a training push, where `judge` is asked about what `maker` made.

    `moved` are weights of the judge, which has an optimizer to itself, that steps of the maker's optimizer move too.
    """

    reach: ClassVar[Reach] = "loss"
    order: ClassVar[int] = 8

    maker: str
    judge: str
    pushes: tuple[Push, ...]
    moved: int = 0

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few steps, whatever the limit
        players = _players(trial)
        if len(trial.optimizers) < 2 or len(players) < 2:
            raise NotMeasured("no two optimizers train two models in turn")
        pushes: list[Push] = []
        pair = ("", "")
        batches = first_batches(trial, BATCHES)
        for index, batch in enumerate(batches):
            watch = _Game(players)
            with restored(trial), stilled(trial), watch.answers(), GradientWatch([], watch.at_backward):
                seed_all(0)
                trial.train_step(copied(batch), index)
            pushes += watch.pushes
            pair = watch.pair or pair
        if {push.who for push in pushes} != {MAKER, JUDGE}:
            raise NotMeasured("no model is seen to judge what another one makes, each by a loss of its own")
        return cls(*pair, tuple(pushes), _moved_along(trial, players[pair[0]], players[pair[1]], batches))


def _players(trial: Trial) -> dict[str, nn.Module]:
    """The models; of one that holds several networks, those that are trained, by the names of its attributes."""
    if len(trial.models) != 1:
        return dict(trial.models)
    (whole,) = trial.models.values()
    stepped = {id(p) for one in trial.optimizers.values() for group in one.param_groups for p in group["params"]}
    return {name: part for name, part in whole.named_children() if any(id(p) in stepped for p in part.parameters())}


def _moved_along(trial: Trial, maker: nn.Module, judge: nn.Module, batches: list[Any]) -> int:
    """How many weights of a judge that is stepped by itself are stepped together with the maker, too.

    0 where the maker has an optimizer to itself: what both are stepped for besides, as in an InfoGAN, is meant.
    """
    held = [{id(p) for group in one.param_groups for p in group["params"]} for one in trial.optimizers.values()]
    made, judged = ({id(p) for p in player.parameters()} for player in (maker, judge))
    of = {(bool(one & made), bool(one & judged)) for one in held}
    if (True, False) in of or not {(True, True), (False, True)} <= of:
        return 0
    found: set[int] = set()

    def step(optimizer: Optimizer, _args: object, _kwargs: object) -> None:
        weights = [weight for group in optimizer.param_groups for weight in group["params"]]
        moves = {id(one) for one in weights if one.grad is not None and bool(one.grad.any())}
        found.update(moves & judged if moves & made else ())

    hook = register_optimizer_step_pre_hook(step)
    try:
        for index, batch in enumerate(batches):
            trial.train_step(copied(batch), index)
    finally:
        hook.remove()
    return len(found)


@dataclass(frozen=True, slots=True)
class _Answer:
    """A model's one number a sample, or a map of such, and the tensors that it was asked about."""

    model: str
    output: Tensor
    asked: tuple[Tensor, ...]


class _Game:
    """Follows one step: who was asked about whose output, and what each backward pass wants of the answers.

    A judge may be told of real and of made samples in a pass each: `_apart` is the way that it was told of the real.
    """

    def __init__(self, players: Mapping[str, nn.Module]) -> None:
        self.pushes: list[Push] = []
        self.pair: tuple[str, str] | None = None
        self._players = players
        self._owners = {id(p): name for name, model in players.items() for p in model.parameters()}
        self._answers: list[_Answer] = []
        self._apart: dict[str, tuple[int, float]] = {}

    @contextmanager
    def answers(self) -> Iterator[None]:
        """Within, what the players are asked and say is kept."""
        with ExitStack() as stack:
            for name, model in self._players.items():
                hook = model.register_forward_hook(partial(self._keep, name), with_kwargs=True)
                stack.callback(hook.remove)
            yield

    def _keep(self, name: str, _: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if isinstance(output, Tensor):
            asked = tuple(tensor.detach() for _, tensor in leaves((args, kwargs)))
            self._answers.append(_Answer(name, output, asked))

    def at_backward(self, root: Tensor) -> None:
        nodes = graph_nodes(root)
        trained = {self._owners.get(id(n.variable), "") for n in nodes if hasattr(n, "variable")} - {""}
        reached = [answer for answer in self._answers if answer.output.grad_fn in nodes]
        made = [(one, maker) for one in reached if (maker := self._maker(one))]
        if not made:
            for model in trained.intersection(one.model for one in reached):
                self._told_apart(model, _ways(root, [one for one in reached if one.model == model]))
            return
        judge, maker = made[0][0].model, made[0][1]
        about = [one for one in reached if one.model == judge and not self._maker(one)]
        (way, force), told = _ways(root, [one for one, _ in made if one.model == judge]), _ways(root, about)
        who = MAKER if maker in trained and self._feeds(made[0][0], maker) else JUDGE
        if way and (who == MAKER or judge in trained):
            self.pair = (maker, judge)
            real, against = told if about or who == MAKER else self._apart.get(judge, (0, 0.0))
            self.pushes.append(Push(who, way, real, user_location(), (force, against)))

    def _told_apart(self, model: str, told: tuple[int, float]) -> None:
        way, force = told
        if not way:
            return
        self._apart[model] = told
        if self.pair and self.pair[1] == model:
            self.pushes = [
                replace(push, real=way, forces=(push.forces[0], force)) if push.who == JUDGE and not push.real else push
                for push in self.pushes
            ]

    def _maker(self, answer: _Answer) -> str:
        """Whose output the model was asked about, by its numbers: a detached one has no other trace."""
        for other in self._answers:
            same = [one for one in answer.asked if one.shape == other.output.shape and one.numel() > 1]
            if other.model != answer.model and any(torch.equal(one, other.output.detach()) for one in same):
                return other.model
        return ""

    def _feeds(self, answer: _Answer, maker: str) -> bool:
        """Whether the answer's gradient goes on to the maker, who is detached from it in the judge's own step."""
        leaves_ = (node.variable for node in graph_nodes(answer.output) if hasattr(node, "variable"))
        return any(self._owners.get(id(leaf)) == maker for leaf in leaves_)


def _ways(root: Tensor, answers: list[_Answer]) -> tuple[int, float]:
    """The one way in which going down from `root` moves all of these numbers, 0 where there is none; and how much."""
    outputs = [answer.output for answer in answers]
    if not outputs:
        return 0, 0.0
    found: list[Tensor | None] = list(torch.autograd.grad(root.sum(), outputs, retain_graph=True, allow_unused=True))
    slopes = torch.cat([one.flatten() for one in found if one is not None] or [torch.zeros(1)])
    force = float(slopes.abs().sum())
    if bool((slopes > 0).all()):
        return -1, force
    return (1 if bool((slopes < 0).all()) else 0), force
