"""Targets that are rows of what the model was given, each another sample's: an autoencoder's, shifted or shuffled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from mlcheck.probe.measure.loss.losses import LossCall


def reordered(rows: Tensor, calls: Sequence[LossCall], at: Mapping[int, int]) -> list[tuple[int, int]]:
    """For samples whose prediction stands in row `at`: each with the sample that is its target, where all are astray.

    Nothing where a loss compares one of them with itself, as mixtures and negative examples do beside others, or where
    the rows of a target are not just rows of this tensor, each once.
    """
    own = [_bits(row) for row in rows]
    if len(set(own)) < len(own):
        return []
    number = {bits: sample for sample, bits in enumerate(own)}
    found: list[tuple[int, int]] = []
    for call in calls:
        target = call.target
        if target.ndim < 2 or len(target) != len(rows) or target[0].numel() != rows[0].numel():
            continue
        said = [number.get(_bits(row.to(rows.dtype))) for row in target]
        order = [sample for sample in said if sample is not None]
        if len(set(order)) < len(rows):
            continue
        pairs = [(sample, order[row]) for sample, row in at.items()]
        if any(sample == other for sample, other in pairs):
            return []
        found = found or pairs
    return found


def _bits(row: Tensor) -> bytes:
    return row.detach().cpu().contiguous().numpy().tobytes()
