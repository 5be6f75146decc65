"""Soft targets that carry gradients of another model than the one that is to meet them: the teacher learns, too.

What only a target trains is what gets a gradient in a step, and none in the same step with the targets detached.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from mlcheck.core.finding import Location
from mlcheck.probe.measure.autograd_graph import graph_nodes
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.modules import Names
from mlcheck.probe.measure.place import user_location
from mlcheck.probe.measure.simplified import stilled
from mlcheck.probe.measure.training.gradients import GradientWatch, named_parameters
from mlcheck.probe.measure.tree import copied
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

_DIVERGENCES = {F.kl_div: "kl_div", F.cross_entropy: "cross_entropy"}
_SEED = 5


@dataclass(frozen=True, slots=True)
class LearntTargets:
    """`taught` are the parameters that get gradients through the targets of `kind` alone, `stepped` those of them that
    an optimizer changes. `seen` counts the losses with a soft target.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 4

    seen: int
    kind: str
    place: Location
    taught: tuple[str, ...] = ()
    stepped: int = 0

    @classmethod
    def absent(cls, called: frozenset[str]) -> str:
        return "" if called & set(_DIVERGENCES.values()) else "no loss compares with probabilities"

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - two steps, whatever the limit
        batch, targets = first_batches(trial, 1)[0], _Targets()
        trained = _trained(trial, batch, targets)
        if not targets.seen:
            raise NotMeasured("no loss compares with probabilities that are no data")
        if not targets.behind & trained:
            return cls(targets.seen, targets.kind, targets.place)
        otherwise = _trained(trial, batch, _Targets(detach=True))
        names, only = Names(trial.models), targets.behind & trained - otherwise
        taught = [p for p in named_parameters(trial.models) if id(p) in only]
        stepped = {id(p) for opt in trial.optimizers.values() for group in opt.param_groups for p in group["params"]}
        changed = sum(id(p) in stepped for p in taught)
        return cls(targets.seen, targets.kind, targets.place, tuple(map(names.parameter, taught)), changed)


class _Targets(TorchFunctionMode):
    """Hears of soft targets with a graph; `behind` are parameters that make one of them, and no input."""

    def __init__(self, detach: bool = False) -> None:
        super().__init__()
        self.seen, self.kind, self.place = 0, "", Location()
        self._targets: set[int] = set()
        self._inputs: set[int] = set()
        self._detach = detach

    @property
    def behind(self) -> set[int]:
        return self._targets - self._inputs

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func not in _DIVERGENCES:
            return func(*args, **kwargs)
        given, target = (*args, *kwargs.values())[:2] if len(args) != 1 else (args[0], kwargs.get("target"))
        if isinstance(target, Tensor) and target.is_floating_point():
            self.seen += 1
            if target.requires_grad and isinstance(given, Tensor):
                self.kind, self.place = _DIVERGENCES[func], user_location()
                self._targets |= _weights(target)
                self._inputs |= _weights(given)
                if self._detach:
                    args = tuple(one.detach() if one is target else one for one in args)
                    kwargs = {name: one.detach() if one is target else one for name, one in kwargs.items()}
        return func(*args, **kwargs)


def _weights(tensor: Tensor) -> set[int]:
    return {id(node.variable) for node in graph_nodes(tensor) if hasattr(node, "variable")}


def _trained(trial: Trial, batch: Any, targets: _Targets) -> set[int]:
    """The parameters that backward gives a gradient, in one step that changes nothing."""
    found: set[int] = set()
    parameters = [p for p in named_parameters(trial.models) if p.requires_grad]

    def look(root: Tensor) -> None:
        gradients: Sequence[Tensor | None] = torch.autograd.grad(
            root.sum(), parameters, retain_graph=True, allow_unused=True
        )
        found.update(id(p) for p, one in zip(parameters, gradients) if one is not None and bool(one.any()))

    with restored(trial), stilled(trial), targets, GradientWatch([], look):
        seed_all(_SEED)
        trial.train_step(copied(batch), 0)
    return found
