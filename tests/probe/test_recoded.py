"""Categories that each split encodes by itself."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, says, trial_on
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from mlcheck.core.outcome import Outcome

RULE = "splits-scaled-differently"
TOWNS = 9


class Coded(nn.Module):
    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.town, self.out = nn.Embedding(TOWNS, 4), nn.Linear(7, outputs)

    def forward(self, towns: Tensor, numbers: Tensor) -> Tensor:
        return self.out(torch.cat([self.town(towns), numbers], 1))  # type: ignore[no-any-return]


def people(rows: int, seed: int, drift: float = 0.0, effect: float = 1.5) -> tuple[Tensor, Tensor, Tensor]:
    world = torch.Generator().manual_seed(5)
    effects = effect * torch.randn(TOWNS, generator=world)
    generator = torch.Generator().manual_seed(seed)
    effects = (1 - drift) * effects + drift * effect * torch.randn(TOWNS, generator=generator)
    towns = torch.randint(TOWNS, (rows,), generator=generator)
    numbers = torch.randn(rows, 3, generator=generator)
    value = effects[towns] + numbers[:, 0] + 0.3 * torch.randn(rows, generator=generator)
    return towns, numbers, value


def verdict(recode: Any, classes: bool, **world: float) -> Any:
    sets = []
    for rows, seed in ((800, 0), (240, 1)):
        towns, numbers, value = people(rows, seed, **(world if seed else {}))
        wanted = (value > 0).long() if classes else value[:, None]
        sets.append(TensorDataset(recode(towns) if seed else towns, numbers, wanted))

    def loss(model: nn.Module, batch: Any) -> Tensor:
        output = model(batch[0], batch[1])
        return F.cross_entropy(output, batch[2]) if classes else F.mse_loss(output, batch[2])

    return ask(RULE, trial_on(*sets, model=Coded(2 if classes else 1), loss=loss))


ORDER = torch.tensor([4, 7, 0, 8, 1, 6, 2, 3, 5])


@pytest.mark.parametrize("classes", [False, True])
def test_codes_that_mean_other_towns_in_validation(classes: bool) -> None:
    told = "`batch[0]` has other codes for the same categories in validation than in training"
    says(verdict(lambda towns: ORDER[towns], classes), Outcome.WARN, told)


@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize(
    "world", [{}, {"drift": 0.4}, {"effect": 0.0}], ids=("alike", "somewhat other effects", "no effects")
)
def test_the_same_codes_whatever_they_tell(classes: bool, world: dict[str, float]) -> None:
    assert verdict(lambda towns: towns, classes, **world).outcome is not Outcome.WARN


def test_categories_that_training_never_had_are_no_other_codes() -> None:
    assert verdict(lambda towns: (towns + 1).clamp(max=TOWNS - 1), True, effect=0.0).outcome is not Outcome.WARN
