"""How far two readings of one sample lie apart: what augmentation, or noise, adds to it."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor


@dataclass(slots=True)
class Noise:
    """The variance between readings, tensor by tensor, over `reads` samples that were read twice."""

    reads: int = 0
    _totals: dict[str, float] = field(default_factory=dict)

    def compare(self, first: list[tuple[str, Tensor]], second: list[tuple[str, Tensor]]) -> None:
        self.reads += 1
        for (name, one), (_, other) in zip(first, second):
            if one.is_floating_point() and one.shape == other.shape and one.numel():
                between = float((one.double() - other.double()).pow(2).mean()) / 2
                self._totals[name] = self._totals.get(name, 0.0) + between

    def variance(self, name: str) -> float:
        return self._totals.get(name, 0.0) / max(self.reads, 1)
