"""Terms of a loss that no output of a model is in: their gradient, where it draws the weights to 0."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from mlcheck.probe.measure.autograd_graph import added_up, nodes_behind

_DRAWN = 0.5  # the cosine between the gradient and the weights: 1 for their squares, 0.8 for their sizes


@dataclass(frozen=True, slots=True)
class WeightTerms:
    """The norm of their gradient, and how many times that of the other terms it is."""

    norm: float
    ratio: float

    @classmethod
    def of(cls, root: Tensor, outputs: Iterable[Tensor], weights: list[Tensor]) -> Self | None:
        """None where the loss has no such terms, nothing else, or they do not draw weights to 0."""
        answers = {output.grad_fn for output in outputs} - {None}
        terms = {node: not answers.isdisjoint(nodes_behind(node)) for node in added_up(root)}
        if len(set(terms.values())) < 2 or any(node.name().endswith("AccumulateGrad") for node in terms):
            return None
        of_data, own = (
            _without(root, [node for node, tells in terms.items() if tells is left_out], weights)
            for left_out in (False, True)
        )
        norm, rest = _norm(own), _norm(of_data)
        held = [(gradient.double(), weight.detach().double()) for gradient, weight in zip(own, weights)]
        held = [(gradient, weight) for gradient, weight in held if bool(gradient.any())]
        along = sum(float((gradient * weight).sum()) for gradient, weight in held)
        drawn = along > _DRAWN * norm * _norm([weight for _, weight in held])
        return cls(norm, norm / rest) if drawn and rest > 0 and math.isfinite(norm / rest) else None


def _without(root: Tensor, left_out: list[Any], weights: list[Tensor]) -> list[Tensor]:
    """The gradient of all other terms."""
    with ExitStack() as hooks:
        for node in left_out:
            hooks.callback(node.register_prehook(_nothing).remove)
        found: list[Tensor | None] = list(torch.autograd.grad(root, weights, retain_graph=True, allow_unused=True))
    return [torch.zeros_like(w) if gradient is None else gradient for w, gradient in zip(weights, found)]


def _nothing(arriving: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
    return tuple(None if gradient is None else torch.zeros_like(gradient) for gradient in arriving)


def _norm(tensors: list[Tensor]) -> float:
    return math.sqrt(sum(float(tensor.double().pow(2).sum()) for tensor in tensors))
