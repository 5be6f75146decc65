"""What a program adds to its losses: of the data, as the divergence of a VAE, or of the weights alone."""

from __future__ import annotations

from dataclasses import dataclass

from mlcheck.probe.measure.loss.loss_scene import LossScene


@dataclass(frozen=True, slots=True)
class Penalty:
    """What is added to the recognised losses: its value, and its gradient's norm as a multiple of theirs.

    `about_weights` says that value and gradient are the same for different batches, so that it knows nothing of the
    data. The value alone does not tell: beside a sum over a batch a small term is lost in the rounding.
    """

    value: float
    gradient_ratio: float
    about_weights: bool


def penalty_of(scenes: list[LossScene]) -> Penalty | None:
    first = scenes[0]
    if first.ratio is None or first.backwards != 1:
        return None
    alike = _alike([scene.rest for scene in scenes], 1e-4) and _alike([scene.rest_norm for scene in scenes], 1e-3)
    return Penalty(first.rest, first.ratio, len(scenes) > 1 and alike)


def shrinking_of(scenes: list[LossScene]) -> float | None:
    """Where no loss is recognised: how many times the gradient of the rest draws all weights to 0, for every batch."""
    found = [scene.weight_terms for scene in scenes if scene.weight_terms is not None and scene.backwards == 1]
    if len(found) < len(scenes) or len(scenes) < 2 or not _alike([terms.norm for terms in found], 1e-3):
        return None
    return min(terms.ratio for terms in found)


def _alike(values: list[float], tolerance: float) -> bool:
    return max(values) - min(values) <= tolerance * max(map(abs, values))
