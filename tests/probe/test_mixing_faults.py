"""Samples of one batch that meet in the model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import Function, ask, classes, cross_entropy, fails, mlp, says, trial_of, trial_on
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from mlcheck.core.check import Verdict
from mlcheck.core.outcome import Outcome
from mlcheck.trial.determined.autocast import autocast_proxy


@pytest.mark.parametrize(
    "mix",
    [lambda x: x - x.mean(0), lambda x: x.softmax(0), lambda x: x + x.roll(1, 0)],
    ids=("mean", "softmax", "roll"),
)
def test_samples_that_meet(mix: Any) -> None:
    model = Function(lambda layers, x: layers["net"](mix(x)), net=mlp())
    verdict = fails("batch-mixing", trial_of(model, classes(8), cross_entropy))
    assert "layers.net.0 (Linear)" in verdict.summary


@pytest.mark.parametrize(("dim", "outcome"), [(0, Outcome.FAIL), (1, Outcome.PASS)])
def test_under_a_proxy_whose_copies_share_the_weights(dim: int, outcome: Outcome) -> None:
    """As under Determined's use_amp: what is asked of a copy in float64 leaves the model as it is."""

    def pooled(layers: Any, x: Tensor) -> Tensor:
        states = layers["gru"](x.unflatten(1, (4, 2)))[0]
        result: Tensor = layers["head"]((layers["score"](states).softmax(dim) * states).sum(1))
        return result

    gru, score, head = nn.GRU(2, 8, batch_first=True), nn.Linear(8, 1), nn.Linear(8, 5)
    model = autocast_proxy(Function(pooled, gru=gru, score=score, head=head))
    says(ask("batch-mixing", trial_of(model, classes(8), cross_entropy)), outcome)
    assert all(weight.dtype is torch.float32 for weight in model.parameters())


class Summary(nn.Module):
    """Attention whose first place is a learnt token, from which the answer is read."""

    def __init__(self, batch_first: bool, deaf: bool = False) -> None:
        super().__init__()
        self.token, self.deaf = nn.Parameter(torch.randn(1, 1, 8)), deaf
        self.attention, self.head = nn.MultiheadAttention(8, 2, batch_first=batch_first), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        places = torch.cat([self.token.expand(len(x), -1, -1), x.unflatten(1, (2, 4)).repeat(1, 1, 2)], 1)
        answer: Tensor = self.head(self.attention(places, places, places)[0][:, 0] * (not self.deaf))
        return answer


def test_attention_over_the_batch_that_leaves_nothing_of_a_sample() -> None:
    verdict = fails("batch-mixing", trial_of(Summary(batch_first=False), classes(8), cross_entropy))
    assert "meet in attention (MultiheadAttention)" in verdict.summary
    assert "batch_first=True" in verdict.findings[0].help


@pytest.mark.parametrize("deaf", [False, True])
def test_attention_within_a_sample(deaf: bool) -> None:
    says(ask("batch-mixing", trial_of(Summary(True, deaf), classes(8), cross_entropy)), Outcome.PASS)


class Series(nn.Module):
    """A recurrent layer that takes (time, batch, features), given rows one behind the other as a batch of one."""

    def __init__(self) -> None:
        super().__init__()
        self.walk, self.net = nn.LSTM(8, 16), nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        answers: Tensor = self.net(self.walk(x.unsqueeze(1))[0]).squeeze(1)
        return answers


def test_rows_that_may_be_the_steps_of_one_series() -> None:
    asked = ask("batch-mixing", trial_of(Series(), [(x, y) for x, y in classes(8)], cross_entropy))
    says(asked, Outcome.INCONCLUSIVE, "gets a batch of one: the rows may be its time steps")


def test_samples_of_a_loader_are_no_steps_of_a_series() -> None:
    x, y = (torch.cat(parts) for parts in zip(*classes(8), strict=True))
    trial = trial_on(TensorDataset(x, y), model=Series(), loss=cross_entropy)
    assert "NaN in row 0 reaches" in fails("batch-mixing", trial).summary


class Sorting(nn.Module):
    """A sentence VAE: sorts its rows by length for packing, and gives the answers back in the order of the batch."""

    def __init__(self, restores: bool, mixes: bool) -> None:
        super().__init__()
        self.code, self.net = nn.Linear(8, 8), nn.Linear(8, 5)
        self.restores, self.mixes = restores, mixes

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        order = lengths.argsort(descending=True)
        code: Tensor = self.code(x[order])
        if self.mixes:
            code = code - 0.1 * code.mean(0)
        answers = self.net((code + torch.randn_like(code)).tanh())
        return answers[order.argsort()] if self.restores else answers, code


@pytest.mark.parametrize(
    ("restores", "mixes", "outcome"),
    [(True, False, Outcome.PASS), (False, False, Outcome.FAIL), (True, True, Outcome.FAIL)],
    ids=("restored", "left sorted", "mixed"),
)
def test_rows_that_are_sorted_and_noised(restores: bool, mixes: bool, outcome: Outcome) -> None:
    batches = [(x, (100 * x[:, 0]).long(), y) for x, y in classes(8)]

    def loss(model: nn.Module, batch: Any) -> Tensor:
        answers, code = model(batch[0], batch[1])
        return F.cross_entropy(answers, batch[2]) + 0.01 * code.pow(2).sum(1).mean()

    verdict = ask("batch-mixing", trial_of(Sorting(restores, mixes), batches, loss))
    assert verdict.outcome is outcome, verdict.reason or verdict.summary


@pytest.mark.parametrize(("mixed", "outcome"), [(True, Outcome.FAIL), (False, Outcome.PASS)])
def test_a_number_beside_the_batch_is_no_reason_not_to_look(mixed: bool, outcome: Outcome) -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp()

        def forward(self, inputs: Tensor, scale: Tensor) -> Tensor:
            scaled: Tensor = self.net(inputs * scale)
            return scaled - scaled.mean(0) if mixed else scaled

    def loss(model: nn.Module, batch: Any) -> Tensor:
        return F.cross_entropy(model(batch[0], scale=torch.tensor(0.5)), batch[1])

    for rule in ("batch-mixing", "input-ignored"):
        verdict = ask(rule, trial_of(Scaled(), classes(8), loss))
        assert verdict.outcome is (outcome if rule == "batch-mixing" else Outcome.PASS), verdict.reason


class Square(nn.Module):
    """As many places, or neighbours, as there are samples, and a scale for each sample beside them."""

    def __init__(self, graph: bool, mixed: bool) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(1 if graph else 32, 32), nn.Linear(32, 5)
        self.graph, self.mixed = graph, mixed

    def forward(self, square: Tensor, scale: Tensor) -> Tensor:
        seen: Tensor = self.first(square @ scale if self.graph else square * scale)
        answer: Tensor = self.last(seen - seen.mean(0) if self.mixed else seen)
        return answer


def beside_a_square(graph: bool, mixed: bool) -> Verdict:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        return F.cross_entropy(model(batch[0], batch[1]), batch[2])

    batches = [(x, torch.rand(32, 1) + 0.5, y) for x, y in classes(32, size=32)]
    return ask("batch-mixing", trial_of(Square(graph, mixed), batches, loss))


def test_a_square_of_rows_is_a_graph_only_where_a_row_less_does_not_do() -> None:
    assert beside_a_square(graph=True, mixed=False).outcome is Outcome.INCONCLUSIVE
    assert beside_a_square(graph=False, mixed=False).outcome is Outcome.PASS
    assert beside_a_square(graph=False, mixed=True).outcome is Outcome.FAIL


def test_the_rows_of_a_model_that_holds_a_graph_of_them_are_its_nodes() -> None:
    links = (torch.rand(32, 32, generator=torch.Generator().manual_seed(2)) < 0.2).float() + torch.eye(32)
    model = Function(lambda layers, x: links @ layers["net"](x), net=mlp())
    says(ask("batch-mixing", trial_of(model, classes(8, size=32), cross_entropy)), Outcome.INCONCLUSIVE, "one graph")


def test_rows_that_mix_where_the_first_is_nothing() -> None:
    """After the transposition row 0 is what unit 0 says of every sample, and that unit is dead."""

    def forward(layers: Any, x: Tensor) -> Tensor:
        seen = F.relu(layers["first"](x))
        return layers["last"](seen.view(-1, len(x)).T.reshape(len(x), -1))

    model = Function(forward, first=nn.Linear(8, 32), last=nn.Linear(32, 5))
    nn.init.constant_(model.layers["first"].bias[:1].data, -50.0)
    verdict = fails("batch-mixing", trial_of(model, classes(8, size=32), cross_entropy))
    assert "layers.last" in verdict.findings[0].message


@pytest.mark.parametrize("used", [True, False])
def test_an_answer_made_of_all_samples_alike_is_no_input_ignored(used: bool) -> None:
    """Samples that change places leave it as it is; which samples there are does not."""

    def forward(layers: Any, x: Tensor) -> Tensor:
        most = layers["first"](x).amax(0) * torch.linspace(0.5, 1, len(x)).unsqueeze(1)
        return layers["last"](most if used else 0 * most)

    model = Function(forward, first=nn.Linear(8, 32), last=nn.Linear(32, 5))
    trial = trial_of(model, classes(8), cross_entropy)
    assert ask("input-ignored", trial).outcome is (Outcome.PASS if used else Outcome.FAIL)
    assert ask("batch-mixing", trial).outcome is (Outcome.FAIL if used else Outcome.PASS)


TABLES: dict[str, tuple[Any, Outcome]] = {
    "similarities": (lambda h: F.normalize(h, dim=1) @ F.normalize(h, dim=1).T, Outcome.PASS),
    "distances": (lambda h: torch.cdist(h, h), Outcome.PASS),
    "similarities of what was normalised over the batch": (lambda h: F.normalize(h, dim=0) @ h.T, Outcome.FAIL),
    "a column meets a row": (lambda h: h[:, :1] - h[:, 1], Outcome.FAIL),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_number_for_every_pair_of_samples(name: str) -> None:
    """Two samples have theirs whoever else is there, and with the samples its rows and columns change places."""
    table, outcome = TABLES[name]
    model = Function(lambda layers, x: table(layers["body"](x)), body=mlp(8, 6))

    def loss(model: nn.Module, batch: Any) -> Tensor:
        return F.cross_entropy(model(batch[0]), torch.arange(len(batch[0])))

    says(ask("batch-mixing", trial_of(model, classes(8), loss)), outcome)


def derived(model: nn.Module, batch: Any) -> Tensor:
    """The loss asks for the derivative by the points, as that of a differential equation."""
    points = batch[0].clone().requires_grad_()
    value = model(points)
    (slope,) = torch.autograd.grad(value.sum(), points, create_graph=True)
    return (slope.sum(1) + value[:, 0]).square().mean()


def test_points_that_a_loss_takes_derivatives_by_are_data() -> None:
    says(ask("batch-mixing", trial_of(mlp(), classes(8), derived)), Outcome.PASS)
    mixing = Function(lambda layers, x: layers["net"](x - x.mean(0)), net=mlp())
    says(ask("batch-mixing", trial_of(mixing, classes(8), derived)), Outcome.FAIL, "layers.net")


def test_a_model_that_takes_derivatives_itself_is_not_called_without_gradients() -> None:
    def force(layers: Any, x: Tensor) -> Tensor:
        (slope,) = torch.autograd.grad(layers["net"](x).sum(), x, create_graph=True)
        return slope

    def loss(model: nn.Module, batch: Any) -> Tensor:
        value: Tensor = model(batch[0].clone().requires_grad_()).square().mean()
        return value

    assert ask("batch-mixing", trial_of(Function(force, net=mlp()), classes(8), loss)).outcome is Outcome.SKIP
