"""Classes that a flip exchanges, and those that it leaves alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from probe_programs import ask, says, trial_on
from torch import Tensor, nn
from torch.utils.data import Dataset

from mlcheck.core.outcome import Outcome

RULE = "augmentation-destroys-label"


def pointed(direction: int, generator: torch.Generator) -> Tensor:
    """A triangle that points to the right (1) or to the left."""
    picture = 0.1 * torch.randn(1, 12, 12, generator=generator)
    top = int(torch.randint(3, 6, (1,), generator=generator))
    for row in range(5):
        length = 3 + 2 * (2 - abs(row - 2))
        picture[0, top + row, 2 : 2 + length] += 1
    return picture if direction else picture.flip(-1)


def barred(kind: int, generator: torch.Generator) -> Tensor:
    """A bar that lies or stands, somewhat to one side."""
    picture = 0.1 * torch.randn(1, 12, 12, generator=generator)
    at = int(torch.randint(3, 9, (1,), generator=generator))
    if kind:
        picture[0, at, 1:9] += 1
    else:
        picture[0, 1:9, at] += 1
    return picture


class Flipped(Dataset[Any]):
    def __init__(self, draw: Any, seed: int, chance: float, relabels: bool = False) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(0, 2, (240,), generator=generator)
        self.pictures = [draw(int(label), generator) for label in self.labels]
        self.chance, self.relabels = chance, relabels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        picture, label = self.pictures[index], self.labels[index]
        if float(torch.rand(())) >= self.chance:
            return picture, label
        return picture.flip(-1), 1 - label if self.relabels else label


def verdict(draw: Any, relabels: bool = False, chance: float = 0.4) -> Any:
    sets = Flipped(draw, 0, chance, relabels), Flipped(draw, 1, 0.0)
    return ask(RULE, trial_on(*sets, model=nn.Sequential(nn.Flatten(), nn.Linear(144, 2))))


def test_a_flip_that_makes_another_class() -> None:
    says(verdict(pointed), Outcome.WARN, "flipped left to right and keep their label", "look like class")


@pytest.mark.parametrize(("draw", "relabels"), [(pointed, True), (barred, False)], ids=("relabelled", "no side"))
def test_a_flip_that_goes_with_the_label_or_leaves_it(draw: Any, relabels: bool) -> None:
    assert verdict(draw, relabels).outcome is not Outcome.WARN
