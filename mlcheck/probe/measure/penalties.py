"""What a program adds to its losses: of the data, as the divergence of a VAE, or of the weights alone."""

from __future__ import annotations

from dataclasses import dataclass

from mlcheck.probe.measure.loss_scene import LossScene


@dataclass(frozen=True, slots=True)
class Penalty:
    """What is added to the recognised losses: its value, and its gradient's norm as a multiple of theirs.

    `about_weights` says that its value is the same for different batches, so that it knows nothing of the data.
    """

    value: float
    gradient_ratio: float
    about_weights: bool


def penalty_of(scenes: list[LossScene]) -> Penalty | None:
    first = scenes[0]
    if first.ratio is None or first.backwards != 1:
        return None
    rests = [scene.rest for scene in scenes]
    spread = max(rests) - min(rests)
    same = len(rests) > 1 and spread <= 1e-4 * max(abs(rest) for rest in rests)
    return Penalty(first.rest, first.ratio, same)
