"""Scores that are cosines times a fixed number: how far apart they can be, and so how low a loss of classes can get.

Read off the graph of what cross_entropy is given: a product of rows of length 1 with columns of length 1, times nothing
that is learnt.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from mlcheck.core.finding import Location
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.place import user_location
from mlcheck.probe.measure.watched_step import watch_step
from mlcheck.trial.trial import Trial

_PASSED_BY = {"T", "Transpose", "Mul", "Div", "View", "ReshapeAlias", "Alias", "Clone", "ToCopy", "Neg"}
_LONGEST = 20
_CLOSE = 1e-3
_FEW = 4


@dataclass(frozen=True, slots=True)
class Scores:
    """Cosines times `factor`, of that many classes."""

    factor: float
    classes: int
    place: Location

    @property
    def floor(self) -> float:
        """What the loss is where the right class has a cosine of 1 and every other one of -1."""
        return math.log1p((self.classes - 1) * math.exp(-2 * self.factor))

    @property
    def guess(self) -> float:
        return math.log(self.classes)


@dataclass(frozen=True, slots=True)
class CosineScores:
    """Each call of cross_entropy in a step that is given such scores."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 4

    calls: tuple[Scores, ...]

    @classmethod
    def absent(cls, called: frozenset[str]) -> str:
        named = called & {"normalize", "norm", "cosine_similarity", "rsqrt", "sqrt"}
        return "" if named else "nothing is brought to length 1"

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - one step, whatever the limit
        found: list[Scores] = []

        def look(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], _: Tensor) -> None:
            given = kwargs.get("input", args[0])
            if func is F.cross_entropy and given.ndim == 2 and (factor := _factor(given)):
                found.append(Scores(factor, given.shape[1], user_location()))

        watch_step(trial, look)
        if not found:
            raise NotMeasured("no cross_entropy is given cosines times a fixed number")
        return cls(tuple(found))


def _factor(scores: Tensor) -> float:
    """What the cosines are multiplied by; 0 where the scores are none, or the factor is learnt."""
    node = scores.grad_fn
    for _ in range(_LONGEST):
        name = node.name().split("Backward")[0] if node is not None else ""
        if name == "Mm":
            return _ratio(scores.detach(), node._saved_self, node._saved_mat2)  # type: ignore[union-attr]
        learnt = [parent for parent, _ in node.next_functions if parent is not None] if node is not None else []
        if name not in _PASSED_BY or len(learnt) != 1:
            return 0.0
        node = learnt[0]
    return 0.0


def _ratio(scores: Tensor, rows: Tensor | None, columns: Tensor | None) -> float:
    if rows is None or columns is None or not (_has_length_1(rows, 1) and _has_length_1(columns, 0)):
        return 0.0
    product = rows.detach() @ columns.detach()
    for cosines in (product, product.T):
        if cosines.shape == scores.shape and min(scores.shape) >= _FEW:
            factor = float((scores * cosines).sum() / cosines.square().sum())
            if torch.allclose(scores, factor * cosines, atol=_CLOSE * abs(factor)):
                return abs(factor)
    return 0.0


def _has_length_1(vectors: Tensor, dim: int) -> bool:
    return bool((vectors.detach().float().norm(dim=dim) - 1).abs().max() < _CLOSE)
