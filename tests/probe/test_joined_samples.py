"""Graphs that a collate function joins end to end: each is to get the answer that it gets alone."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from probe_programs import ask, says, trial_on
from torch import Tensor, nn
from torch.utils.data import Dataset

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial


class Graphs(Dataset[Any]):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, int]:
        generator = torch.Generator().manual_seed(index)
        size = int(torch.randint(4, 9, (), generator=generator))
        ring = torch.arange(size)
        return torch.randn(size, 3, generator=generator), torch.stack([ring, ring.roll(1)]), index % 2


class Join:
    def __init__(self, shifted: bool) -> None:
        self.shifted = shifted

    def __call__(self, items: list[tuple[Tensor, Tensor, int]]) -> dict[str, Tensor]:
        sizes = [len(x) for x, _, _ in items]
        starts = [sum(sizes[:place]) if self.shifted else 0 for place in range(len(items))]
        return {
            "x": torch.cat([x for x, _, _ in items]),
            "edges": torch.cat([edges + start for (_, edges, _), start in zip(items, starts)], 1),
            "graph": torch.arange(len(items)).repeat_interleave(torch.tensor(sizes)),
            "y": torch.tensor([y for _, _, y in items]),
        }


class Passing(nn.Module):
    def __init__(self, over_all: bool) -> None:
        super().__init__()
        self.over_all = over_all
        self.own, self.other, self.head = nn.Linear(3, 16), nn.Linear(3, 16), nn.Linear(16, 2)

    def forward(self, x: Tensor, edges: Tensor, graph: Tensor, graphs: int) -> Tensor:
        sent = torch.zeros_like(x).index_add_(0, edges[1], x[edges[0]])
        hidden = (self.own(x) + self.other(sent)).tanh()
        if self.over_all:
            hidden = hidden - hidden.mean(0)
        return self.head(hidden.new_zeros(graphs, 16).index_add_(0, graph, hidden))


def program(shifted: bool = True, over_all: bool = False) -> Trial:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        return F.cross_entropy(model(batch["x"], batch["edges"], batch["graph"], len(batch["y"])), batch["y"])

    return trial_on(Graphs(), model=Passing(over_all), loss=loss, collate_fn=Join(shifted))


def test_graphs_that_answer_as_they_do_alone() -> None:
    says(ask("batch-mixing", program()), Outcome.PASS)


def test_edges_that_point_to_the_first_graph() -> None:
    says(ask("batch-mixing", program(shifted=False)), Outcome.FAIL, "with the other samples of its batch")


def test_a_mean_over_the_nodes_of_all_graphs() -> None:
    says(ask("batch-mixing", program(over_all=True)), Outcome.FAIL, "with the other samples of its batch")
