"""One training step that changes nothing: which losses it computes, and what backward makes of them."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from mlcheck.core.finding import Location
from mlcheck.probe.measure.autograd_graph import graph_nodes, is_plain_mean
from mlcheck.probe.measure.loss.losses import LossCall, LossWatch
from mlcheck.probe.measure.loss.weight_terms import WeightTerms
from mlcheck.probe.measure.modules import ModuleWatch
from mlcheck.probe.measure.simplified import stilled
from mlcheck.probe.measure.training.gradients import GradientWatch, named_parameters
from mlcheck.probe.measure.tree import copied, leaves
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial


class LossScene:
    """One step that changes no parameter, with dropout off and, unless seeded, the others' random numbers."""

    def __init__(self, trial: Trial, batch: Any, seed: int = 0) -> None:
        self.batch = batch
        self._parameters = [p for p in named_parameters(trial.models) if p.requires_grad]
        self._losses = LossWatch(keep_dropout=False, keep_results=True)
        self.seen: list[tuple[LossCall, float | None]] = []
        self._reached: list[tuple[LossCall, set[int]]] = []
        self.parts: list[float] = []
        self.sums: list[LossCall] = []
        self.plain_mean = False
        self.rest = 0.0
        self.ratio: float | None = None
        self.rest_norm = 0.0
        self.weight_terms: WeightTerms | None = None
        gradients = GradientWatch([], self._trace)
        self._modules = modules = ModuleWatch()
        with restored(trial), stilled(trial), self._losses, gradients, modules:
            seed_all(seed)
            trial.train_step(copied(batch), 0)
        self.inputs = [t for call in modules.calls for _, t in leaves((call.args, call.kwargs)) if t.numel()]
        self.backwards = len(gradients.backwards)
        self.value = float(sum(float(backward.root.double().sum()) for backward in gradients.backwards))
        self.place = gradients.backwards[0].place if gradients.backwards else Location()
        for call in (*self._losses.calls, *self._losses.alignments):
            call.result = None

    def _trace(self, root: Tensor) -> None:
        nodes = graph_nodes(root)
        self.plain_mean = is_plain_mean(root)
        mine = [call for call in self._losses.calls if call.node in nodes and call.result is not None]
        derivatives = [_derivative(root, call) for call in mine]
        pulls = [_pull(found) for found in derivatives]
        for call, found in zip(mine, derivatives):
            call.weights = found.abs() if found is not None and bool((found != found.flatten()[0]).any()) else None
        self.seen += list(zip(mine, pulls))
        aligned = [call for call in self._losses.alignments if call.node in nodes]
        self.sums += [call for call in (*mine, *aligned) if _is_sum(call) and _pull(_derivative(root, call)) == 1.0]
        self._reached += [(call, self._behind(call)) for call in mine]
        parts = [float(c.result.detach().sum()) * (p or 0.0) for c, p in zip(mine, pulls) if c.result is not None]
        self.parts += parts
        known = sum(parts)
        self.rest = float(root.detach().sum()) - known
        if mine and len(mine) == len([pull for pull in pulls if pull is not None]):
            self.ratio = self._gradient_ratio(root, mine, pulls)
        elif not mine and root.requires_grad and root.numel() == 1:
            weights = [parameter for parameter in self._parameters if parameter.requires_grad]
            outputs = [tensor for call in self._modules.calls for _, tensor in leaves(call.output)]
            self.weight_terms = WeightTerms.of(root, outputs, weights)

    def _behind(self, call: LossCall) -> set[int]:
        known = {id(parameter) for parameter in self._parameters}
        nodes = graph_nodes(call.result) if call.result is not None else ()
        return {id(node.variable) for node in nodes if hasattr(node, "variable")} & known

    def alone(self, call: LossCall) -> int:
        """How many parameters are reached by this loss only."""
        mine = set().union(*(reached for other, reached in self._reached if other is call))
        return len(mine.difference(*(reached for other, reached in self._reached if other is not call)))

    def _gradient_ratio(self, root: Tensor, mine: list[LossCall], pulls: list[float | None]) -> float | None:
        """The norm of the gradient of all that is added, as a multiple of the losses' own."""
        terms = [c.result.sum() * p for c, p in zip(mine, pulls) if c.result is not None and p]
        if not self._parameters or not terms:
            return None
        known = torch.stack(terms).sum()
        own = _gradients(known, self._parameters)
        whole = _gradients(root, self._parameters)
        rest = self.rest_norm = math.sqrt(sum(float((w - o).double().pow(2).sum()) for w, o in zip(whole, own)))
        scale = math.sqrt(sum(float(o.double().pow(2).sum()) for o in own))
        return rest / scale if scale > 0 and math.isfinite(rest) else None


def known_part(root: Tensor, calls: list[LossCall]) -> Tensor | None:
    """Those of the losses that `root` is made of, with the factors they enter by; None where these are not known."""
    nodes = graph_nodes(root)
    mine = [call for call in calls if call.node in nodes and call.result is not None]
    pulls = [_pull(_derivative(root, call)) for call in mine]
    terms = [call.result.sum() * pull for call, pull in zip(mine, pulls) if call.result is not None and pull]
    return torch.stack(terms).sum() if terms and len(terms) == len(mine) else None


def _derivatives(value: Tensor, inputs: list[Tensor]) -> list[Tensor | None]:
    return list(torch.autograd.grad(value.sum(), inputs, retain_graph=True, allow_unused=True))


def _gradients(value: Tensor, parameters: list[Tensor]) -> list[Tensor]:
    """Zeros for parameters whose gradients the program has switched off by now, as GANs do in turn."""
    wanted = [parameter for parameter in parameters if parameter.requires_grad]
    found = dict(zip(map(id, wanted), _derivatives(value, wanted))) if wanted else {}
    return [torch.zeros_like(p) if (g := found.get(id(p))) is None else g.detach() for p in parameters]


def _derivative(root: Tensor, call: LossCall) -> Tensor | None:
    if call.result is None or not call.result.requires_grad:
        return None
    return _derivatives(root, [call.result])[0]


def _is_sum(call: LossCall) -> bool:
    """Whether it says itself that it is a sum over several samples."""
    targets = torch.as_tensor(call.options.get("target_lengths", call.target))
    return call.options.get("reduction") == "sum" and math.prod(targets.shape[:1]) > 1


def _pull(found: Tensor | None) -> float | None:
    """d root / d loss, where it is one number."""
    if found is None:
        return None
    low, high = float(found.min()), float(found.max())
    if low != high and low <= 0 <= high:
        return None
    return low if abs(low) < abs(high) else high
