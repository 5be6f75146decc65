"""Models that take graphs, lists or batches of nothing, or return what is no tensor."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, cross_entropy, mlp, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome


class Graph(nn.Module):
    """One layer of a graph network: a node's neighbours are meant to count."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 5)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        return edges @ self.layer(nodes)


def test_nodes_of_a_graph_are_no_samples() -> None:
    edges = (torch.rand(32, 32, generator=torch.Generator().manual_seed(0)) < 0.2).float()
    batches = [((x, edges), y) for x, y in classes(8)]
    trial = trial_of(Graph(), batches, lambda model, batch: F.cross_entropy(model(*batch[0]), batch[1]))
    verdict = ask("batch-mixing", trial)
    assert verdict.outcome is Outcome.INCONCLUSIVE, verdict.summary
    assert "nodes of a graph" in verdict.reason


@pytest.mark.parametrize("rule", ["batch-mixing", "input-ignored", "batch-not-reviewed"])
def test_sparse_inputs_break_no_probe(rule: str) -> None:
    edges = torch.eye(32).to_sparse()
    batches = [((x, edges), y) for x, y in classes(8)]
    trial = trial_of(Graph(), batches, lambda model, batch: F.cross_entropy(model(*batch[0]), batch[1]))
    verdict = ask(rule, trial)
    assert verdict.outcome in {Outcome.SKIP, Outcome.PENDING}, verdict.summary


@pytest.mark.parametrize("gradients", [False, True])
def test_an_evaluation_within_a_step_is_no_training(gradients: bool) -> None:
    """Drawn, say, and thrown away: that a graph was built for it teaches the model nothing."""
    model = nn.Sequential(*mlp(), nn.Dropout(0.1))
    optimizer = torch.optim.Adam(model.parameters())

    def step(batch: Any, _: int) -> None:
        model.train()
        optimizer.zero_grad()
        cross_entropy(model, batch).backward()
        optimizer.step()
        model.eval()
        with torch.set_grad_enabled(gradients):
            cross_entropy(model, batch)

    verdict = ask("train-not-restored", trial_of(model, classes(8), cross_entropy, optimizer, step))
    assert verdict.outcome is Outcome.PASS, verdict.reason or verdict.summary


def test_an_evaluation_without_a_number_has_no_worst_predictions() -> None:
    model = nn.Linear(8, 5)
    with torch.no_grad():
        model.weight.fill_(float("nan"))
    verdict = ask("worst-predictions-unseen", trial_of(model, classes(8), cross_entropy))
    assert verdict.outcome is Outcome.SKIP, verdict.summary


class Policy(nn.Module):
    """What it returns is a distribution, and no tensor."""

    def __init__(self, deaf: bool) -> None:
        super().__init__()
        self.mean, self.deaf = nn.Linear(8, 2), deaf

    def forward(self, state: Tensor) -> torch.distributions.Distribution:
        mean = self.mean(torch.zeros_like(state) if self.deaf else state)
        inner = torch.distributions.Independent(torch.distributions.Normal(mean, torch.ones_like(mean)), 1)
        return torch.distributions.TransformedDistribution(inner, [torch.distributions.transforms.TanhTransform()])


@pytest.mark.parametrize(("deaf", "outcome"), [(False, Outcome.PASS), (True, Outcome.FAIL)])
def test_a_model_that_returns_a_distribution(deaf: bool, outcome: Outcome) -> None:
    def loss(model: nn.Module, state: Tensor) -> Tensor:
        return -model(state).log_prob(state[:, :2].tanh() * 0.9).mean()

    batches = [torch.randn(32, 8) for _ in range(3)]
    says(ask("input-ignored", trial_of(Policy(deaf), batches, loss)), outcome)


def test_a_model_whose_result_holds_no_tensor_is_left_open() -> None:
    class Told(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 5)

        def forward(self, x: Tensor) -> Any:
            result = self.layer(x)
            return lambda: result

    batches = classes(8)
    trial = trial_of(Told(), batches, lambda model, batch: F.cross_entropy(model(batch[0])(), batch[1]))
    for rule in ("input-ignored", "batch-mixing"):
        says(ask(rule, trial), Outcome.SKIP, "returns no tensors")


def test_layers_that_see_no_samples_are_told_from_none() -> None:
    class Lists(nn.Module):
        """It is given objects, of which it makes its own rows."""

        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 5)

        def forward(self, given: list[Any]) -> Tensor:
            return self.layer(torch.stack([one() for one in given]))

    batches = classes(8)
    trial = trial_of(
        Lists(), batches, lambda model, batch: F.cross_entropy(model([lambda x=x: x for x in batch[0]]), batch[1])
    )
    says(ask("dead-units", trial), Outcome.SKIP, "gets a row for each sample")


class Edges(nn.Module):
    """Sums over neighbours, of edges that are pairs of nodes; `deaf` to them, every node is its own neighbour."""

    def __init__(self, deaf: bool = False) -> None:
        super().__init__()
        self.layer, self.deaf = nn.Linear(4, 5), deaf

    def forward(self, nodes: Tensor, edges: Tensor, owner: Tensor) -> Tensor:
        source, target = torch.arange(len(nodes)).expand(2, -1) if self.deaf else edges
        near = torch.zeros_like(nodes).index_add(0, target, nodes[source])
        return torch.zeros(8, 5).index_add(0, owner, self.layer(nodes + near))


@pytest.mark.parametrize(("deaf", "outcome"), [(True, Outcome.WARN), (False, Outcome.PASS)])
def test_edges_of_a_graph_that_change_nothing(deaf: bool, outcome: Outcome) -> None:
    generator = torch.Generator().manual_seed(0)
    batches = []
    for _ in range(6):
        nodes, edges = torch.randn(30, 4, generator=generator), torch.randint(0, 30, (2, 70), generator=generator)
        batches.append(((nodes, edges, torch.arange(30) % 8), torch.randint(0, 5, (8,), generator=generator)))
    trial = trial_of(Edges(deaf), batches, lambda model, batch: F.cross_entropy(model(*batch[0]), batch[1]))
    says(ask("input-ignored", trial), outcome, "edges")


def test_edges_that_the_model_uses_while_it_trains_alone() -> None:
    class Regularised(Edges):
        def forward(self, nodes: Tensor, edges: Tensor, owner: Tensor) -> Tensor:
            self.deaf = not self.training
            return super().forward(nodes, edges, owner)

    batches = [
        ((torch.randn(30, 4), torch.randint(0, 30, (2, 70)), torch.arange(30) % 8), torch.randint(0, 5, (8,)))
        for _ in range(6)
    ]
    trial = trial_of(Regularised(), batches, lambda model, batch: F.cross_entropy(model(*batch[0]), batch[1]))
    says(ask("input-ignored", trial), Outcome.PASS)


@pytest.mark.parametrize("rule", ["inputs-not-scaled", "one-logit-ce", "initial-loss-too-high", "softmax-before-ce"])
def test_batches_in_which_nothing_is_found_break_no_probe(rule: str) -> None:
    """As of boxes: a picture without any has targets of no rows, and what is made of them is empty."""
    model = nn.ModuleDict({"body": mlp(8, 8), "kind": nn.Linear(8, 3)})

    def loss(model: Any, batch: Any) -> Tensor:
        x, boxes, kinds = batch
        found = model["body"](x)[: len(boxes)]
        classes = F.cross_entropy(model["kind"](found), kinds, reduction="sum")
        return classes + F.l1_loss(found[:, :4], boxes, reduction="sum") + model["body"](x).pow(2).mean()

    batches = [(torch.randn(16, 8), torch.rand(n, 4), torch.zeros(n).long()) for n in (0, 0, 0, 2, 0, 5)]
    assert ask(rule, trial_of(model, batches, loss)).outcome in {Outcome.PASS, Outcome.SKIP}
