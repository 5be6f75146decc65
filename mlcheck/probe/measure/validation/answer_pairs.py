"""Which output of a model answers which labels of a batch, with how many classes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mlcheck.probe.measure.loss.losses import LossWatch
from mlcheck.probe.measure.tree import beside, leaves

_MOST_CLASSES = 1000
_LEFT_OUT = -100
_FEW = 8


def answer_pair(
    batch: Any, outputs: list[Tensor], losses: LossWatch, trained: frozenset[int] = frozenset()
) -> tuple[Tensor, Tensor] | None:
    """The one output of the model that answers labels of the batch, and these.

    Where the evaluation has no loss to tell scores from codes of something, those of as many classes as `trained`.
    """
    labels = [leaf for _, leaf in leaves(batch) if _is_classes(leaf)]
    labels += [leaf[:, 1:] for leaf in labels if leaf.ndim == 2 and leaf.shape[1] > 2]  # what follows a decoder's start
    pairs = [
        (output, beside(label, output))
        for output in _each_once(outputs)
        for label in labels
        if classes_of(output, label)
    ]
    if pairs and pairs[0][0].shape[:-1] == pairs[0][1].shape and pairs[0][0].ndim > 2:  # or else codes of something
        scored = [call.input for call in losses.calls if call.kind == "cross_entropy"]
        pairs = [
            pair
            for pair in pairs
            if (any(_is_part(one, pair[0]) for one in scored) if scored else classes_of(*pair) in trained)
        ]
    if len(pairs) > 1:  # a mask of the same places, beside what a loss asks for
        asked = [call.target for call in losses.calls]
        pairs = [pair for pair in pairs if any(_is_asked(one, pair[1]) for one in asked)]
    return pairs[0] if len(pairs) == 1 else None


def classes_of(output: Tensor, label: Tensor) -> int:
    """How many classes the output scores for each label: 1 for one score for two classes, 0 where it is no answer."""
    if not output.is_floating_point() or not output.ndim:
        return 0
    if output.shape == label.shape or output.shape == (*label.shape, 1) or _beside(output, 1) == label.shape:
        return int(int(label.max()) <= 1)
    if output.ndim != label.ndim + 1 or output.ndim < 2:
        return 0
    count = output.shape[1] if _beside(output, output.shape[1]) == label.shape else 0
    if not count and output.ndim > 2 and output.shape[:-1] == label.shape:
        count = output.shape[-1]
    of_many = not label.is_floating_point() and (label.dtype is not torch.bool or count == 2)
    return count if int(label.max()) < count <= _MOST_CLASSES and of_many else 0


def _is_part(scores: Tensor, output: Tensor) -> bool:
    """Whether a loss gets the output, whole in any shape, or some of its places alone."""
    if scores.numel() == output.numel():
        last = scores.movedim(1, -1) if scores.ndim == output.ndim else scores
        return any(torch.equal(one.flatten(), output.flatten()) for one in (scores, last))
    if scores.ndim != 2 or not len(scores) or scores.shape[1] != output.shape[-1]:
        return False
    places = output.reshape(-1, output.shape[-1])
    return all(bool((places == row).all(1).any()) for row in scores[:_FEW])


def _is_asked(target: Tensor, label: Tensor) -> bool:
    return target.numel() == label.numel() and bool((beside(target, label).flatten() == label.flatten()).all())


def _each_once(outputs: list[Tensor]) -> list[Tensor]:
    """Without those that a model gave again: for the loss, say, and for the metrics."""
    return [
        output
        for place, output in enumerate(outputs)
        if not any(output.shape == other.shape and torch.equal(output, other) for other in outputs[:place])
    ]


def _is_classes(leaf: Tensor) -> bool:
    if leaf.is_complex() or not leaf.numel() or not leaf.ndim or bool((leaf < 0).all()):
        return False
    if bool(((leaf < 0) & (leaf != _LEFT_OUT)).any()) or (leaf.ndim < 2 and bool((leaf < 0).any())):
        return False
    return not leaf.is_floating_point() or bool(((leaf == 0) | (leaf == 1)).all())


def _beside(output: Tensor, channels: int) -> tuple[int, ...]:
    """The shape of the output without its channels, where it has so many."""
    fits = output.ndim > 1 and output.shape[1] == channels
    return (output.shape[0], *output.shape[2:]) if fits else ()
