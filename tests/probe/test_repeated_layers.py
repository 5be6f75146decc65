"""One layer that stands in a container several times over."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from probe_programs import ask, classes, cross_entropy, mlp, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome

RULE = "same-layer-repeated"


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.wide, self.back = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.back(self.wide(self.norm(x)).relu())


class Stack(nn.Module):
    def __init__(self, blocks: list[nn.Module]) -> None:
        super().__init__()
        self.blocks, self.head = nn.ModuleList(blocks), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x).tanh()
        return self.head(x)


class Heads(Stack):
    """One head for the answers of several stages."""

    def __init__(self) -> None:
        super().__init__([nn.Linear(8, 5)] * 3)
        self.stages = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        answers = []
        for stage, head in zip(self.stages, self.blocks):
            x = stage(x)
            answers.append(head(x))
        return torch.stack(answers).mean(0)


class Around(Stack):
    """One block in a loop, as in a universal transformer."""

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(3):
            x = self.blocks[0](x)
        return self.head(x)


def test_a_block_times_three() -> None:
    told = ask(RULE, trial_of(Stack([Block()] * 3), classes(8), cross_entropy))
    says(
        told,
        Outcome.WARN,
        "entries 0 to 2 of `blocks` are one and the same Block",
        "296 parameters where one would expect 888",
    )
    straight = nn.Sequential(nn.Linear(8, 16), *[nn.Linear(16, 16)] * 2, nn.Linear(16, 5))
    says(ask(RULE, trial_of(straight, classes(8), cross_entropy)), Outcome.WARN, "one and the same Linear")


def activation_again() -> nn.Module:
    """One PReLU behind each layer, and ReLUs that learn nothing."""
    slope = nn.PReLU()
    quiet = [nn.ReLU()] * 2
    return nn.Sequential(nn.Linear(8, 8), slope, nn.Linear(8, 8), slope, nn.Linear(8, 5), *quiet)


SOUND: dict[str, Callable[[], nn.Module]] = {
    "blocks of their own": lambda: Stack([Block() for _ in range(3)]),
    "a head for all stages": Heads,
    "a block in a loop": lambda: Around([Block()]),
    "an activation again": activation_again,
}


@pytest.mark.parametrize("name", SOUND)
def test_layers_of_their_own(name: str) -> None:
    assert ask(RULE, trial_of(SOUND[name](), classes(8), cross_entropy)).outcome is Outcome.PASS


def test_without_a_container() -> None:
    assert ask(RULE, trial_of(nn.Linear(8, 5), classes(8), cross_entropy)).outcome is Outcome.SKIP
    assert ask(RULE, trial_of(mlp(), classes(8), cross_entropy)).outcome is Outcome.PASS
