"""Reconstructions that are asked for at places drawn at random: do the answers there go by what was to be hidden?

An answer and the number that it is compared with both come of the batch. Where gradients lead from the answer to that
very number, the model has been shown what it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from mlcheck.core.finding import Location
from mlcheck.probe.measure.autograd_graph import graph_nodes
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.loss.comparisons import LOSSES
from mlcheck.probe.measure.loss.losses import LossWatch
from mlcheck.probe.measure.loss.written_pairs import SUBTRACTIONS
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.modules import ModuleWatch
from mlcheck.probe.measure.place import user_location
from mlcheck.probe.measure.simplified import stilled
from mlcheck.probe.measure.training.gradients import GradientWatch, named_parameters
from mlcheck.probe.measure.tree import leaves, map_tensors
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

_ASKED = 8
_MOST_PAIRS = 12
_LEAST, _MOST = 0.02, 0.9
_COMPARING = SUBTRACTIONS | LOSSES


@dataclass(frozen=True, slots=True)
class HiddenPlaces:
    """A share `hidden` of the model's answers counts in the loss, others under other random numbers.

    Of `asked` answers that count, `shown` go by the very number that they are compared with.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 8

    hidden: float
    asked: int
    shown: int
    place: Location

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - two steps, whatever the limit
        batch = first_batches(trial, 1)[0]
        if not any(leaf.is_floating_point() and leaf.ndim > 1 for _, leaf in leaves(batch)):
            raise NotMeasured("the batch has no numbers that could be reconstructed")
        try:
            first = _Scene(trial, batch, 0)
            other = _Scene(trial, batch, 1) if first.found and first.partial else first
        except Exception as error:
            raise NotMeasured("the step does not take a batch that is differentiated") from error
        if first.found is None or first.counted is None or other.counted is None or not first.partial:
            raise NotMeasured("no loss compares a part of what a model makes of the batch with the batch itself")
        if first.counted.shape != other.counted.shape or torch.equal(first.counted, other.counted):
            raise NotMeasured("which places count in the loss is not drawn at random")
        return cls(first.share, *first.found)


class _Scene:
    """One step that changes nothing. `counted` are the places of a model's output that the loss depends on."""

    def __init__(self, trial: Trial, batch: Any, seed: int) -> None:
        self.counted: Tensor | None = None
        self.found: tuple[int, int, Location] | None = None
        self._trained = {id(one) for one in named_parameters(trial.models)}
        self._sources: list[Tensor] = []
        self._outputs: list[Tensor] = []
        self._pairs = _Pairs()
        given = map_tensors(batch, self._source)
        watch = GradientWatch([], self._trace)
        modules = ModuleWatch(reply=self._answered)
        with restored(trial), stilled(trial), LossWatch(keep_dropout=False), self._pairs, watch, modules:
            seed_all(seed)
            trial.train_step(given, 0)

    @property
    def share(self) -> float:
        return float(self.counted.double().mean()) if self.counted is not None else 0.0

    @property
    def partial(self) -> bool:
        return _LEAST < self.share < _MOST

    def _source(self, leaf: Tensor) -> Tensor:
        if not leaf.is_floating_point() or leaf.ndim < 2:
            return leaf.clone()
        source = leaf.detach().clone().requires_grad_()
        self._sources.append(source)
        return source.clone()  # a program may write into its batch

    def _answered(self, output: Any) -> Any:
        self._outputs += [tensor for _, tensor in leaves(output) if tensor.requires_grad]
        return output

    def _trace(self, root: Tensor) -> None:
        nodes = graph_nodes(root)
        for one, other, result, place in self._pairs.kept:
            if self.found or result.grad_fn not in nodes:
                continue
            answers = [self._is_trained(one), self._is_trained(other)]
            if answers not in ([True, False], [False, True]):
                continue
            said, wanted = (one, other) if answers[0] else (other, one)
            reached = [(tensor, _gradient(root, tensor)) for tensor in self._outputs if tensor.grad_fn in nodes]
            of = [gradient != 0 for _, gradient in reached if gradient is not None]
            behind = graph_nodes(said)
            mine = [mask for mask, (tensor, _) in zip(of, reached) if tensor.grad_fn in behind]
            weighed = _gradient(root, said)
            if mine and weighed is not None and bool((weighed != 0).any()):
                self.counted = mine[-1].cpu()
                self.found = (*self._shown(said, wanted, weighed), place)

    def _is_trained(self, tensor: Tensor) -> bool:
        return any(id(getattr(node, "variable", None)) in self._trained for node in graph_nodes(tensor))

    def _shown(self, said: Tensor, wanted: Tensor, weighed: Tensor) -> tuple[int, int]:
        """Of some answers that count: how many come of a number of the batch, and go by that number."""
        places = (weighed.flatten() != 0).nonzero()[:, 0]
        chosen = places[torch.linspace(0, len(places) - 1, min(_ASKED, len(places))).long()]
        asked = shown = 0
        for place in chosen.tolist():
            for source in self._sources:
                origin = _gradient(wanted.flatten()[place], source)
                if origin is None or not bool((origin != 0).any()):
                    continue
                at = int(origin.abs().flatten().argmax())
                reached = _gradient(said.flatten()[place], source)
                asked += 1
                shown += reached is not None and bool(reached.flatten()[at] != 0)
        return asked, shown


class _Pairs(TorchFunctionMode):
    """Keeps what is compared with each other, both differentiable."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[tuple[Tensor, Tensor, Tensor, Location]] = []

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in _COMPARING and len(self.kept) < _MOST_PAIRS and isinstance(result, Tensor):
            tensors = [one for one in (*args, *(kwargs or {}).values()) if isinstance(one, Tensor)]
            if len(tensors) == 2 and tensors[0].shape == tensors[1].shape and all(t.requires_grad for t in tensors):
                self.kept.append((tensors[0], tensors[1], result, user_location()))
        return result


def _gradient(root: Tensor, of: Tensor) -> Tensor | None:
    return torch.autograd.grad(root.sum(), [of], retain_graph=True, allow_unused=True)[0]
