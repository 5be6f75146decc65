"""Weights, masks and attention of a model before training: one program with the fault each, and its sound likes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, cross_entropy, mlp, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome


def on_classes(model: nn.Module, batches: int = 12) -> Any:
    return trial_of(model, classes(8, batches=batches), cross_entropy)


@pytest.mark.parametrize("value", [0.0, 0.02])
def test_weights_all_the_same(value: float) -> None:
    model = mlp()
    for layer in (model[0], model[2], model[4]):
        nn.init.constant_(layer.weight, value)
        nn.init.zeros_(layer.bias)
    says(ask("weights-start-equal", on_classes(model)), Outcome.FAIL, "`0.weight`", "still are after")


def test_one_constant_layer_before_a_random_one_only_warns() -> None:
    model = mlp()
    nn.init.constant_(model[0].weight, 0.01)
    says(ask("weights-start-equal", on_classes(model)), Outcome.WARN, "every number of `0.weight` is 0.01")


def test_a_last_layer_of_zeros_moves_apart() -> None:
    model = mlp()
    nn.init.zeros_(model[4].weight)
    says(ask("weights-start-equal", on_classes(model)), Outcome.PASS, "`4.weight` began at zero and moved apart")


class Pairs(nn.Module):
    """Two tables, the scores their products."""

    def __init__(self, *starts: float) -> None:
        super().__init__()
        self.centre, self.context = nn.Embedding(20, 8), nn.Embedding(20, 8)
        for table, spread in zip((self.centre, self.context), starts, strict=True):
            nn.init.normal_(table.weight, std=spread)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.centre(tokens[:, 0]) @ self.context.weight.T


def test_of_two_tables_one_may_begin_at_zero() -> None:
    def started(rate: float = 0.1, **spread: float) -> Any:
        model = Pairs(spread.get("centre", 0.0), spread.get("context", 0.0))
        batches = [(torch.randint(20, (32, 1)), torch.randint(20, (32,))) for _ in range(3)]
        return trial_of(model, batches, cross_entropy, torch.optim.SGD(model.parameters(), lr=rate))

    says(ask("weights-start-equal", started()), Outcome.FAIL, "`centre.weight`", "zero as well, every gradient is 0")
    for one in ("centre", "context"):
        assert ask("weights-start-equal", started(**{one: 0.1})).outcome is not Outcome.FAIL
    assert ask("weights-start-equal", started(rate=0.0, centre=0.1)).outcome is not Outcome.FAIL


class Language(nn.Module):
    """A bag-of-tokens model with an embedding and a head of the same shape."""

    def __init__(self, tie: str = "") -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(20, 16), nn.Linear(16, 20, bias=False)
        if tie == "data":
            self.head.weight.data = self.embed.weight.data
        elif tie == "copy":
            self.head.weight.data = self.embed.weight.data.clone()
        elif tie == "parameter":
            self.head.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.embed(tokens).mean(1))


def language(tie: str) -> Any:
    batches = [(torch.randint(20, (32, 6)), torch.randint(20, (32,))) for _ in range(3)]
    return trial_of(Language(tie), batches, cross_entropy)


def test_weights_tied_by_their_data() -> None:
    verdict = ask("tied-weights-apart", language("data"))
    says(verdict, Outcome.FAIL, "`embed.weight` and `head.weight`", "over the same memory")
    says(ask("tied-weights-apart", language("copy")), Outcome.WARN, "starts as a copy")


@pytest.mark.parametrize("tie", ["parameter", ""])
def test_tied_and_untied_weights_pass(tie: str) -> None:
    says(ask("tied-weights-apart", language(tie)), Outcome.PASS)


def frozen_table(values: Tensor) -> Any:
    model = Language()
    model.embed = nn.Embedding.from_pretrained(values)
    batches = [(torch.randint(len(values), (32, 6)), torch.randint(20, (32,))) for _ in range(3)]
    return trial_of(model, batches, cross_entropy, torch.optim.Adam(model.head.parameters()))


@pytest.mark.parametrize("spread", [1.0, 0.1])
def test_a_frozen_random_table(spread: float) -> None:
    says(ask("frozen-fresh-weights", frozen_table(spread * torch.randn(200, 16))), Outcome.WARN, "`embed.weight`")


def test_a_frozen_table_with_structure_passes() -> None:
    topics = torch.randn(4, 16)
    values = topics[torch.arange(200) % 4] * torch.rand(200, 1) + 0.1 * torch.randn(200, 16)
    says(ask("frozen-fresh-weights", frozen_table(values)), Outcome.PASS, "none looks freshly drawn")


@pytest.mark.parametrize(
    ("moved", "outcome"),
    [(0.0, Outcome.WARN), (0.2, Outcome.PASS), (None, Outcome.SKIP)],
    ids=["drawn", "loaded", "on"],
)
def test_a_frozen_recurrent_layer(moved: float | None, outcome: Outcome) -> None:
    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru, self.head = nn.GRU(8, 16, batch_first=True), nn.Linear(16, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.gru(x)[0][:, -1])

    model = Reader().requires_grad_(True)
    for weight in model.gru.parameters() if moved is not None else ():
        weight.requires_grad_(False).add_(moved * torch.randn_like(weight))
    batches = [(torch.randn(32, 5, 8), torch.randint(4, (32,))) for _ in range(3)]
    told = ("`gru.weight_ih_l0` is frozen",) if outcome is Outcome.WARN else ()
    says(ask("frozen-fresh-weights", trial_of(model, batches, cross_entropy)), outcome, *told)


def test_most_units_dead() -> None:
    model = mlp()
    with torch.no_grad():
        model[0].bias[:28] = -50
    verdict = ask("dead-units", on_classes(model))
    says(verdict, Outcome.WARN, "28 of 32 units of `1 (ReLU)`")
    assert verdict.figures[0].kind == "bars"


class Causal(nn.Module):
    """One attention layer over tokens, masked or not, with its softmax over a chosen dimension."""

    def __init__(self, mask: bool = True, dim: int = -1) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(12, 16), nn.Parameter(torch.randn(10, 16))
        self.qkv, self.drop, self.head = nn.Linear(16, 48), nn.Dropout(0.1), nn.Linear(16, 12)
        self.mask, self.dim = mask, dim

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens) + self.place
        query, key, value = self.qkv(x).view(*tokens.shape, 3, 2, 8).permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-2, -1) / 8**0.5
        if self.mask:
            scores = scores.masked_fill(torch.ones(10, 10).triu(1).bool(), -1e4)
        mixed = self.drop(F.softmax(scores, dim=self.dim)) @ value
        return self.head(mixed.transpose(1, 2).reshape(*tokens.shape, 16))


def next_token(model: nn.Module, shift: int = 1) -> Any:
    tokens = [torch.randint(12, (16, 11)) for _ in range(3)]
    batches = [(t[:, :10], t[:, shift : 10 + shift]) for t in tokens]
    return trial_of(model, batches, lambda m, b: F.cross_entropy(m(b[0]).flatten(0, 1), b[1].flatten()))


def test_a_language_model_without_its_mask() -> None:
    says(ask("future-leak", next_token(Causal(mask=False))), Outcome.FAIL, "sees the tokens it has to predict")
    says(ask("future-leak", next_token(Causal())), Outcome.PASS)


class Forced(nn.Module):
    """A decoder that begins with a summary of the sequence, or with nothing, and is fed its answers step by step."""

    def __init__(self, late: int, summary: bool) -> None:
        super().__init__()
        self.embed, self.cell, self.head = nn.Embedding(12, 16), nn.GRUCell(16, 16), nn.Linear(16, 12)
        self.late, self.summary = late, summary

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        fed = F.pad(x, (0, 0, self.late, 0))
        state, outputs = x.mean(1) * self.summary, []
        for place in range(tokens.shape[1]):
            state = self.cell(fed[:, place], state)
            outputs.append(self.head(state))
        return torch.stack(outputs, dim=1)


def test_targets_that_are_the_inputs() -> None:
    says(ask("future-leak", next_token(Causal(), shift=0)), Outcome.WARN, "input tokens themselves")
    says(ask("future-leak", next_token(Forced(late=0, summary=False), shift=0)), Outcome.WARN, "nothing to predict")
    assert ask("future-leak", next_token(Forced(late=1, summary=False), shift=0)).outcome is Outcome.SKIP
    assert ask("future-leak", next_token(Forced(late=1, summary=True), shift=0)).outcome is Outcome.SKIP


def test_a_tagger_may_look_both_ways() -> None:
    batches = [(torch.randint(12, (16, 10)), torch.randint(12, (16, 10))) for _ in range(3)]
    trial = trial_of(Causal(mask=False), batches, lambda m, b: F.cross_entropy(m(b[0]).flatten(0, 1), b[1].flatten()))
    assert ask("future-leak", trial).outcome is Outcome.SKIP


@pytest.mark.parametrize(("dim", "outcome"), [(1, Outcome.WARN), (2, Outcome.WARN), (-1, Outcome.PASS)])
def test_attention_over_another_dimension(dim: int, outcome: Outcome) -> None:
    says(ask("attention-normalised-wrongly", next_token(Causal(dim=dim))), outcome)


def test_a_softmax_over_classes_of_pixels_is_no_attention() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.head = nn.Conv2d(1, 4, 1), nn.Linear(256, 5)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.layer(x).softmax(dim=1).flatten(1))

    trial = trial_of(Mixed(), classes(1, 8, 8), cross_entropy)
    assert ask("attention-normalised-wrongly", trial).outcome is Outcome.SKIP


def test_one_relu_for_layers_of_several_widths() -> None:
    relu = nn.ReLU()
    model = nn.Sequential(nn.Linear(8, 48), relu, nn.Linear(48, 24), relu, nn.Linear(24, 5))
    verdict = ask("dead-units", trial_of(model, classes(8), cross_entropy))
    assert verdict.outcome is Outcome.PASS, verdict.reason or verdict.summary
    nn.init.constant_(model[2].bias, -1e3)
    verdict = ask("dead-units", trial_of(model, classes(8), cross_entropy))
    assert verdict.outcome is not Outcome.PASS


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
